//! The end of an admission stack whose transport continues by itself and answers refusals in its own form.

use super::admission::{AdmissionResponse, Denied};
use super::message::Authenticated;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use tower_service::Service;

/// The result of an admission: the request with its caller and tally, or the refusal.
pub type Admission<B> = Result<Authenticated<B>, Denied>;

impl<B> AdmissionResponse for Admission<B> {
    fn denied(denied: Denied) -> Self {
        Err(denied)
    }
}

/// Returns the admitted request to the caller of the admission stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Admit;

impl<B> Service<Authenticated<B>> for Admit {
    type Response = Admission<B>;
    type Error = Infallible;
    type Future = Ready<Result<Admission<B>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Authenticated<B>) -> Self::Future {
        ready(Ok(Ok(request)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::refusal::Refusal;

    #[test]
    fn a_refusal_is_returned_unchanged() {
        let denied = Admission::<()>::denied(Denied::unknown(Refusal::NoKey)).unwrap_err();
        assert_eq!((denied.refusal, denied.rated), (Refusal::NoKey, false));
        assert_eq!(
            Admission::<()>::preflight(&http::HeaderMap::new()).unwrap_err().refusal,
            Refusal::NoRoute
        );
    }
}
