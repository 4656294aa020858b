//! Faulty answers: reset, slow, endless, and pages that are not gRPC.

use super::GrpcDisturbance;
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use http::{HeaderMap, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use std::io;
use std::time::Duration;
use tonic::body::Body;

/// The time in which a piece reaches the socket: a reset takes back the rest.
const FLUSHED: Duration = Duration::from_millis(50);

/// Returns the page of a proxy in front of the node that does not speak gRPC.
pub(super) fn page(status: u16) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from_static(
        b"<html><body>the node is not well</body></html>",
    ))));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    let kind = http::HeaderValue::from_static("text/html");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

/// Returns the response with its fault. A response without a message, such as a bare status, stays as it is.
pub(super) async fn disturbed(
    response: Response<Body>,
    disturbance: Option<GrpcDisturbance>,
) -> Response<Body> {
    let Some(disturbance @ (GrpcDisturbance::Reset | GrpcDisturbance::Slow(_) | GrpcDisturbance::Flood)) =
        disturbance
    else {
        return response;
    };
    let (head, body) = response.into_parts();
    // The answers of chains are whole in memory, so this does not wait.
    let Ok(body) = body.collect().await else {
        return Response::from_parts(head, Body::empty());
    };
    let trailers = body.trailers().cloned();
    let bytes = body.to_bytes();
    if bytes.is_empty() {
        return Response::from_parts(head, Body::empty());
    }
    let body = match disturbance {
        GrpcDisturbance::Reset => Body::new(StreamBody::new(reset(bytes).boxed())),
        GrpcDisturbance::Slow(pause) => Body::new(StreamBody::new(slow(bytes, trailers, pause).boxed())),
        _ => Body::new(StreamBody::new(stream::repeat(bytes).map(data).boxed())),
    };
    Response::from_parts(head, body)
}

type Piece = Result<Frame<Bytes>, io::Error>;

fn data(bytes: Bytes) -> Piece {
    Ok(Frame::data(bytes))
}

fn reset(mut bytes: Bytes) -> impl Stream<Item = Piece> {
    bytes.truncate(bytes.len().div_ceil(2));
    let end = stream::once(async {
        tokio::time::sleep(FLUSHED).await;
        Err(io::Error::new(io::ErrorKind::ConnectionReset, "the stream was reset on purpose"))
    });
    stream::iter([data(bytes)]).chain(end)
}

fn slow(bytes: Bytes, trailers: Option<HeaderMap>, pause: Duration) -> impl Stream<Item = Piece> {
    let pieces = (0..bytes.len()).map(move |at| bytes.slice(at..=at));
    let pieces = stream::iter(pieces).then(move |piece| async move {
        tokio::time::sleep(pause).await;
        data(piece)
    });
    pieces.chain(stream::iter(trailers.map(|trailers| Ok(Frame::trailers(trailers)))))
}
