//! The server loop of nodes that speak REST, from verb and path to the bytes of the answer. A node adds its routes and
//! the form of its errors.

use super::target::Target;
use super::{NodeReply, SimulatedRequest};
use http::Method;
use rpcgate_core::clock::Time;

/// A call as a node's routes see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RestRequest<'a> {
    pub(crate) verb: &'a Method,
    /// The decoded segments of the path.
    pub(crate) path: &'a [&'a str],
    /// The decoded query.
    pub(crate) query: &'a Target,
    /// The path as sent, for nodes that compare it undecoded.
    pub(crate) raw_path: &'a str,
    /// The query as sent.
    pub(crate) raw_query: &'a str,
    pub(crate) body: &'a [u8],
}

impl RestRequest<'_> {
    /// Reports whether the call is a GET or a HEAD. For HEAD the HTTP server omits the body of the answer.
    pub(crate) fn is_get(&self) -> bool {
        matches!(*self.verb, Method::GET | Method::HEAD)
    }

    pub(crate) fn is_post(&self) -> bool {
        *self.verb == Method::POST
    }
}

pub(crate) trait Rest {
    /// The node's errors, each with its answer.
    type Error: Into<NodeReply>;

    fn run(&mut self, call: RestRequest<'_>, now: Time) -> Result<NodeReply, Self::Error>;
}

/// Answers a request.
pub(crate) fn serve<N: Rest>(node: &mut N, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
    let target = Target::read(request.path);
    let (raw_path, raw_query) = request.path.split_once('?').unwrap_or((request.path, ""));
    let path = target.segments();
    let verb = request.method;
    let body = request.body;
    let call = RestRequest { verb, path: &path, query: &target, raw_path, raw_query, body };
    node.run(call, now).unwrap_or_else(Into::into)
}

/// The names of a node's methods, if each has its own path.
#[derive(Debug)]
pub(crate) struct MethodNames {
    /// Methods that read, called with GET.
    pub(crate) read: &'static [&'static str],
    /// Methods that need a body, called with POST.
    pub(crate) posted: &'static [&'static str],
}

impl MethodNames {
    pub(crate) fn is_served(&self, method: &str) -> bool {
        self.read.contains(&method) || self.is_posted(method)
    }

    /// Reports whether the node has this method and it needs a body.
    pub(crate) fn is_posted(&self, method: &str) -> bool {
        self.posted.contains(&method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that serves `GET /sum/{a}`.
    struct Adder(u64);

    impl Rest for Adder {
        type Error = NodeReply;

        fn run(&mut self, call: RestRequest<'_>, _: Time) -> Result<NodeReply, NodeReply> {
            match call.path {
                ["sum", number] if call.is_get() => {
                    self.0 += number.parse::<u64>().map_err(|_| NodeReply::json(400, "no number".into()))?;
                    Ok(NodeReply::of(200, &self.0.into()))
                }
                _ => Err(NodeReply::json(404, format!("{} {}", call.raw_path, call.raw_query))),
            }
        }
    }

    fn served(verb: &Method, path: &str) -> (u16, String) {
        let reply =
            serve(&mut Adder(1), &SimulatedRequest { method: verb, path, body: b"" }, Time::default());
        (reply.status, String::from_utf8(reply.body).expect("UTF-8"))
    }

    #[test]
    fn the_routes_see_decoded_segments_and_the_path_as_it_was_sent() {
        assert_eq!(served(&Method::GET, "/sum/%32/"), (200, "3".into()));
        assert_eq!(served(&Method::HEAD, "/sum/2?x"), (200, "3".into()));
        assert_eq!(served(&Method::GET, "/sum/x"), (400, "no number".into()));
        assert_eq!(served(&Method::POST, "/su%6d/2?a=%41"), (404, "/su%6d/2 a=%41".into()));
    }
}
