//! The names of query parameters.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::Method;
use rpcgate_management::error::ActionError;
use std::sync::Arc;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{ParameterIn, PathItem, Paths};

/// The query parameters that operations accept: exactly those in the OpenAPI document.
#[derive(Clone, Debug)]
pub(super) struct QueryParameters(Arc<[(Method, Vec<String>)]>);

impl QueryParameters {
    /// Collects the parameters of the operations at these paths.
    pub(super) fn of(paths: &Paths) -> Self {
        let mut known = Vec::new();
        for PathItem { get, put, post, delete, .. } in paths.paths.values() {
            let operations =
                [(Method::GET, get), (Method::PUT, put), (Method::POST, post), (Method::DELETE, delete)];
            for (method, operation) in operations {
                let Some(operation) = operation else { continue };
                let names = operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
                    RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => {
                        Some(parameter.name.clone())
                    }
                    _ => None,
                });
                known.push((method, names.collect()));
            }
        }
        QueryParameters(known.into())
    }

    /// Checks the names in a query. A misspelt name would otherwise be ignored and give a wrong answer.
    fn check(&self, method: &Method, query: &str) -> Result<(), ActionError> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let Some((_, known)) = self.0.iter().find(|(its, _)| its == method) else { return Ok(()) };
        let mut names = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
        let Some(unknown) = names.find(|name| !known.iter().any(|known| known == name)) else {
            return Ok(());
        };
        let shown: String = unknown.chars().filter(|c| !c.is_control()).take(100).collect();
        let expected: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
        let expected = if expected.is_empty() { "none".to_owned() } else { expected.join(", ") };
        let why = format!("unknown parameter `{shown}`: expected {expected}");
        Err(ActionError::field(shown, why))
    }
}

pub(super) async fn expect_known(
    State(known): State<QueryParameters>,
    request: Request,
    next: Next,
) -> Response {
    match known.check(request.method(), request.uri().query().unwrap_or_default()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}
