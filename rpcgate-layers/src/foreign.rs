//! What a layer needs of requests and responses that are not rpcgate's own types, so that it can stand in any tower stack.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use rpcgate_core::chain::Dialect;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::window::Windows;

/// A request that can be answered with a refusal.
pub trait RejectWith<Res> {
    /// The response that says no.
    fn refuse(self, refusal: Refusal) -> Res;
}

impl<B, Body: From<Bytes>> RejectWith<http::Response<Body>> for http::Request<B> {
    /// Status, body, `Retry-After` and `Allow` of the gateway's own answers; errors in the form of JSON-RPC 2.0.
    fn refuse(self, refusal: Refusal) -> http::Response<Body> {
        let mut body = Vec::new();
        refusal.write_alone(Dialect::JsonRpc2, None, &mut body);
        let mut response = http::Response::new(Body::from(Bytes::from(body)));
        *response.status_mut() = refusal.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = refusal.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(methods) = refusal.allow() {
            headers.insert(ALLOW, HeaderValue::from_static(methods));
        }
        response
    }
}

/// A response that can carry the rate limit headers of the plan windows.
pub trait SetRateLimit {
    /// Writes them.
    fn rate(&mut self, windows: &Windows);
}

impl<B> SetRateLimit for http::Response<B> {
    fn rate(&mut self, windows: &Windows) {
        crate::headers::write_rates(windows, self.headers_mut());
    }
}

/// Marks a layer of rpcgate's own stack, whose requests carry everything that the layer needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

/// Marks a layer of a foreign stack: a function reads what the layer needs from a request.
#[derive(Clone, Copy)]
pub struct FromFn<F>(pub(crate) F);

impl<F> std::fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FromFn")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_gets_the_gateways_own_answer() {
        let response: http::Response<Bytes> =
            http::Request::new(()).refuse(Refusal::Window { retry_after: 9 });
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "9");
        assert_eq!(response.body(), &br#"{"message":"API rate limit exceeded"}"#[..]);
    }
}
