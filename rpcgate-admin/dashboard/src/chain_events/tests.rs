//! Tests of the log of events as a browser sees it.

use crate::projects::tests::ProjectFixture;
use crate::tests::get;
use http::StatusCode;

#[tokio::test]
async fn the_log_is_filtered_by_chain_event_and_time() {
    let fixture = ProjectFixture::new().await;
    let path = format!("/projects/{}/events", fixture.project);
    for (query, is_found) in [
        ("", true),
        ("?chain=ethereum", true),
        ("?chain=btc", false),
        ("?event_type=token_transfer", true),
        ("?event_type=health", false),
        ("?from=2026-12-31T12:00&to=2026-12-31T12:01", true),
        ("?from=2026-12-31T12:01", false),
        ("?chain=&event_type=&from=&to=", true),
    ] {
        let page = fixture.get(&format!("{path}{query}")).await;
        assert_eq!(page.text.contains("26,452,218"), is_found, "{query}: {}", page.text);
        assert_eq!(page.text.contains("No event matches"), !is_found, "{query}: {}", page.text);
    }
    let page = fixture.get(&path).await;
    assert!(page.text.contains("{&#34;data&#34;:&#34;Checkout&#34;}"), "{}", page.text);
}

#[tokio::test]
async fn the_error_of_a_filter_is_shown_at_its_field() {
    let fixture = ProjectFixture::new().await;
    for (query, field, text) in [
        ("chain=nosuch", "chain", "The chain is unknown."),
        ("event_type=nosuch", "event_type", "Choose an event."),
        ("from=yesterday", "from", "Enter a time, such as 2026-11-19T14:26, in UTC."),
    ] {
        let path = format!("/projects/{}/events?{query}", fixture.project);
        let page = get(&fixture.site, &path, &fixture.cookie).await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{query}");
        assert!(page.text.contains(&format!("<a href=\"#{field}\">{text}</a>")), "{query}: {}", page.text);
    }
}
