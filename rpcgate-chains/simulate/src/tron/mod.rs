//! A node of TRON: the HTTP API of java-tron's full node, `/wallet/<method>`.

mod address;
mod chain;
mod method;
mod network;
mod params;
mod proto;
mod run;
mod show;
mod token;
mod tx;

use super::{NodeReply, Simulated, SimulatedRequest, Submission};
use chain::Chain;
use method::Answer;
use params::Params;
use rpcgate_core::clock::Time;

/// A full node of TRON.
///
/// The accounts whose secret keys are the numbers 1 to 10 hold 10,000 TRX and as many tokens each; whoever knows that
/// can send. There are transfers of coins and calls of one TRC-20 token; what else a transaction could do is refused.
/// Every account pays for bandwidth and energy by the network's rules, without staked coins.
#[derive(Debug)]
pub struct TronNode {
    chain: Chain,
}

impl TronNode {
    /// A node for a seed.
    pub fn new(seed: u64) -> Self {
        TronNode { chain: Chain::new(seed) }
    }
}

/// What java-tron's web server says of a path or verb that it does not serve.
fn refused(status: u16, words: &str) -> NodeReply {
    let body = format!(
        "<html>\n<head>\n<meta http-equiv=\"Content-Type\" content=\"text/html;charset=utf-8\"/>\n<title>Error {status} \
         {words}</title>\n</head>\n<body><h2>HTTP ERROR {status} {words}</h2>\n</body>\n</html>\n"
    );
    NodeReply { status, content_type: "text/html;charset=iso-8859-1", body: body.into_bytes() }
}

impl Simulated for TronNode {
    fn handle(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        self.chain.inbox.turn();
        self.chain.head = self.chain.height(now);
        let (path, query) = request.path.split_once('?').unwrap_or((request.path, ""));
        let method = path.strip_prefix("/wallet/").filter(|method| method::is_served(method));
        let Some(method) = method else {
            return refused(404, "Not Found");
        };
        let is_get = match *request.method {
            http::Method::GET | http::Method::HEAD => true,
            http::Method::POST => false,
            _ => return refused(405, "HTTP method is not supported by this URL"),
        };
        if is_get && method::is_posted(method) {
            return refused(405, "HTTP method GET is not supported by this URL");
        }
        let params = if is_get { Ok(Params::of_query(query)) } else { Params::of_body(request.body) };
        let answer = params.and_then(|params| self.call(method, &params, now));
        let mut body = String::new();
        match answer {
            Ok(Answer(json)) => json.write(&mut body),
            Err(why) => super::json::object! { "Error": why }.write(&mut body),
        }
        body.push('\n');
        NodeReply { status: 200, content_type: "application/json; charset=utf-8", body: body.into_bytes() }
    }

    fn height(&self, now: Time) -> u64 {
        self.chain.height(now)
    }

    fn submitted(&mut self) -> Vec<Submission> {
        self.chain.inbox.news()
    }

    fn replay(&mut self, past: &[Submission]) {
        for Submission { moment, raw } in past {
            self.chain.head = self.chain.height(*moment);
            if let Ok(tx) = tx::Tx::read(raw) {
                // What an edited list lacks may leave a later transaction without its coins.
                let _ = self.take(tx, *moment);
            }
        }
        self.chain.inbox.turn();
    }
}

#[cfg(test)]
mod tests;
