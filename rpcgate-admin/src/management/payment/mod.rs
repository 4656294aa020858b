//! Payment providers: services of others that take payments for us.
//!
//! A payment is begun with a [`PaymentOrder`], for which the provider returns the URL of a page where the customer pays.
//! The provider reports what became of it in events, which it signs and sends to us. Events may come twice, late, and in
//! any order; [`checkouts`](crate::management::action::checkouts) takes each for what it says and does nothing twice.

pub mod stripe;

use http::HeaderMap;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Time;
use rpcgate_store::{CheckoutId, CheckoutSubject, PaymentReport};
use std::fmt;

/// A payment that is to be begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PaymentOrder {
    /// Its identifier. An order that is sent again is the same order.
    pub id: CheckoutId,
    /// What is paid.
    pub subject: CheckoutSubject,
    /// The amount in cents of a US dollar; 0 for a plan, which is paid by invoices.
    pub cents: u64,
    /// The customer's mail address.
    pub email: String,
    /// Where the customer returns to, whether it has paid or not.
    pub return_url: String,
}

/// A payment that the provider has begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BegunPayment {
    /// The page on which the customer pays.
    pub url: String,
    /// The provider's identifier of the payment. Only events with it are about this payment.
    pub session: String,
}

/// What a provider reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PaymentEvent {
    /// The customer has paid; for a plan it has left a means of payment.
    Completed(PaymentReport),
    /// The customer can no longer pay on the page of the order.
    Ended {
        /// The order.
        id: CheckoutId,
        /// The provider's identifier of the payment.
        session: String,
    },
    /// Something that does not concern us.
    Other,
}

/// Why a payment could not be begun. The text is for the log.
#[derive(Debug, thiserror::Error)]
pub enum PaymentError {
    /// The provider cannot be reached now, or asks to be called later.
    #[error("the payment provider cannot be reached now: {0}")]
    Unavailable(String),
    /// The provider refuses the order.
    #[error("the payment provider refuses the order: {0}")]
    Refused(String),
}

/// Why an event was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EventError {
    /// It is not signed by the provider, or was signed too long ago.
    #[error("the signature is not valid")]
    Signature,
    /// It is signed, and cannot be read.
    #[error("the event cannot be read")]
    Form,
}

/// A payment provider.
pub trait PaymentProvider: fmt::Debug + Send + Sync {
    /// The smallest amount that it takes, in cents.
    fn least_cents(&self) -> u64;

    /// Begins a payment. Doing it again with the same identifier begins no second payment.
    ///
    /// # Errors
    /// [`PaymentError`].
    fn begin<'a>(&'a self, order: &'a PaymentOrder) -> BoxFuture<'a, Result<BegunPayment, PaymentError>>;

    /// Verifies and reads an event: the headers and the unchanged body of a request.
    ///
    /// # Errors
    /// [`EventError`].
    fn read_event(&self, headers: &HeaderMap, body: &[u8], now: Time) -> Result<PaymentEvent, EventError>;
}
