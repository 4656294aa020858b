//! Payment providers: third-party services that take payments for us.
//!
//! A payment starts with a [`PaymentOrder`], for which the provider returns the URL of a page where the customer pays.
//! The provider reports the result in signed events. Events may come twice, late, and in any order;
//! [`checkouts`](crate::action::checkouts) checks each on its own and does nothing twice.

pub mod stripe;

use http::HeaderMap;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Time;
use rpcgate_store::{CheckoutId, CheckoutSubject, PaymentReport};
use std::fmt;

/// A payment to start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PaymentOrder {
    /// The order's identifier. An order that is sent again with it is the same order.
    pub id: CheckoutId,
    /// The subject of the payment.
    pub subject: CheckoutSubject,
    /// The amount in cents of a US dollar. It is 0 for a plan, which is paid by invoices.
    pub cents: u64,
    /// The customer's mail address.
    pub email: String,
    /// The URL to which the customer returns, after a payment or without one.
    pub return_url: String,
}

/// A payment that the provider has started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BegunPayment {
    /// The page on which the customer pays.
    pub url: String,
    /// The provider's identifier of the payment. Only events with it are about this payment.
    pub session: String,
}

/// An event from a provider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PaymentEvent {
    /// The customer has paid, or for a plan has saved a means of payment.
    Completed(PaymentReport),
    /// The customer can no longer pay on the page of the order.
    Ended {
        /// The order.
        id: CheckoutId,
        /// The provider's identifier of the payment.
        session: String,
    },
    /// An event that does not concern us.
    Other,
}

/// The reason why a payment could not be started. The text is for the log.
#[derive(Debug, thiserror::Error)]
pub enum PaymentError {
    /// The provider cannot be reached now, or asks to be called later.
    #[error("the payment provider cannot be reached now: {0}")]
    Unavailable(String),
    /// The provider refuses the order.
    #[error("the payment provider refuses the order: {0}")]
    Refused(String),
}

/// The reason why an event was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EventError {
    /// It is not signed by the provider, or was signed too long ago.
    #[error("the signature is not valid")]
    Signature,
    /// It is signed but cannot be parsed.
    #[error("the event cannot be read")]
    Form,
}

/// A payment provider.
pub trait PaymentProvider: fmt::Debug + Send + Sync {
    /// Returns the provider's smallest amount in cents.
    fn least_cents(&self) -> u64;

    /// Starts a payment. A repetition with the same identifier starts no second payment.
    ///
    /// # Errors
    /// [`PaymentError`].
    fn begin<'a>(&'a self, order: &'a PaymentOrder) -> BoxFuture<'a, Result<BegunPayment, PaymentError>>;

    /// Verifies and parses an event from the headers and the unchanged body of a request.
    ///
    /// # Errors
    /// [`EventError`].
    fn read_event(&self, headers: &HeaderMap, body: &[u8], now: Time) -> Result<PaymentEvent, EventError>;
}
