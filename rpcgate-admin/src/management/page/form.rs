//! The extractor of form fields.

use super::view;
use crate::management::error::ActionError;
use crate::management::extract::read_body;
use crate::management::strict_json;
use axum::extract::{FromRequest, Request};
use axum::response::Response;
use serde::de::DeserializeOwned;

/// The fields of a form. Fields that `T` does not name are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Form<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Form<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        read(request, state).await.map(Form).map_err(view::refusal)
    }
}

async fn read<S: Send + Sync, T: DeserializeOwned>(request: Request, state: &S) -> Result<T, ActionError> {
    let bytes = read_body(request, state).await?;
    // Browsers escape all non-ASCII characters.
    let text = str::from_utf8(&bytes).map_err(|_| ActionError::Invalid("the form is no text".into()))?;
    strict_json::of_query(text).map_err(ActionError::Invalid)
}
