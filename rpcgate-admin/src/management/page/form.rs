//! What a form sends.

use super::view;
use crate::management::error::ActionError;
use crate::management::extract::whole;
use crate::management::strict_json;
use axum::extract::{FromRequest, Request};
use axum::response::Response;
use serde::de::DeserializeOwned;

/// The fields of a form. Those that `T` does not name are left alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Form<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Form<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        read(request, state).await.map(Form).map_err(view::refusal)
    }
}

async fn read<S: Send + Sync, T: DeserializeOwned>(request: Request, state: &S) -> Result<T, ActionError> {
    let bytes = whole(request, state).await?;
    // Browsers escape all that is not ASCII.
    let text = str::from_utf8(&bytes).map_err(|_| ActionError::Invalid("the form is no text".into()))?;
    strict_json::of_query(text).map_err(ActionError::Invalid)
}
