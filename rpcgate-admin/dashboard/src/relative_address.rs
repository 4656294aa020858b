//! Relative addresses below the root of the pages, so that the pages can be served below a path.

use axum::response::{IntoResponse, Redirect, Response};

/// Redirects to the page at `to` below the root; `root` is the relative path to it. The address stays relative.
pub(super) fn redirect(root: &str, to: &str) -> Response {
    let start = if root.is_empty() { "./" } else { root };
    let address =
        if to.is_empty() || to.starts_with('?') { format!("{start}{to}") } else { format!("{root}{to}") };
    Redirect::to(&address).into_response()
}

/// Returns an address below the root that a browser has sent, or the root itself for one that leads elsewhere.
pub(super) fn below_root(path: &str) -> &str {
    let name = path.split(['?', '/']).next().unwrap_or_default();
    let is_below = !name.is_empty() && !name.contains([':', '\\', '%']) && !path.contains("..");
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic()) && path.len() < MAX_WAY;
    if is_plain && (is_below || path.starts_with('?')) { path } else { "" }
}

/// The maximum bytes of an address in a form.
const MAX_WAY: usize = 2_000;

/// The addresses below the root that accept only forms, and the number of leading path segments that make the address
/// of the page with the form. `*` matches any one segment. Opening one of them gets 405, so that no link may lead
/// there.
const FORMS: &[(&str, usize)] = &[
    ("account/name", 1),
    ("account/password", 1),
    ("account/security/factor/start", 2),
    ("account/security/passkeys", 2),
    ("account/security/passkeys/start", 2),
    ("account/security/sessions/*/end", 2),
    ("account/security/sessions/end-others", 2),
    ("account/security/totp/activate", 3),
    ("confirm-again", 0),
    ("deliveries/*/retry", 2),
    ("login/passkey", 1),
    ("login/passkey/start", 1),
    ("logout", 0),
    ("notifications/*/read", 1),
    ("notifications/read", 1),
    ("operator/invoices/*/ask", 3),
    ("operator/invoices/*/do", 3),
    ("operator/plans/*/changes/*/withdraw", 3),
    ("operator/tenants/*/plan", 3),
    ("operator/tenants/*/projects/*/quota", 3),
    ("operator/tickets/*/comments", 3),
    ("operator/tickets/*/files", 3),
    ("operator/tickets/*/status", 3),
    ("operator/users/*/enable", 3),
    ("operator/users/*/factors", 3),
    ("operator/users/*/remove-factors", 3),
    ("operator/users/*/unlock", 3),
    ("plan/checkout", 1),
    ("read-notification", 0),
    ("support/*/close", 2),
    ("support/*/comments", 2),
    ("support/*/files", 2),
    ("support/*/rating", 2),
    ("support/*/reopen", 2),
    ("team/invitations", 1),
    ("team/invitations/*/withdraw", 1),
    ("team/members/*/role", 1),
    ("team/name", 1),
    ("team/second-factor", 1),
    ("theme", 0),
    ("webhooks/*/test", 2),
];

/// Returns the address of the page with the form that is sent to `path`, both below the root, if `path` is not a page
/// itself.
pub(super) fn page_of_form(path: &str) -> Option<&str> {
    let is_at = |pattern: &str| {
        let mut parts = path.split('/');
        let mut pattern = pattern.split('/');
        loop {
            match (parts.next(), pattern.next()) {
                (None, None) => return true,
                (Some(part), Some(known)) if known == "*" || part == known => {}
                _ => return false,
            }
        }
    };
    let (_, kept) = FORMS.iter().find(|(pattern, _)| is_at(pattern))?;
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    let end = kept.checked_sub(1).and_then(|last| ends.into_iter().nth(last)).unwrap_or_default();
    path.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;
    use crate::tests::hostile::forged;
    use crate::tests::{HtmlPage, answered, attributes, cookie, followed, site};
    use axum::body::Body;
    use http::StatusCode;
    use http::header::{ACCEPT, COOKIE};
    use rpcgate_store::{Role, UserId};
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    /// Returns the form-only addresses in the sources of the pages, with `*` for their parameters.
    fn declared() -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let source: String = std::fs::read_to_string(path).unwrap().split_whitespace().collect();
                for route in source.split(".route(\"/").skip(1) {
                    let (address, handlers) = route.split_once('"').unwrap();
                    if handlers.starts_with(",post(") {
                        let parts =
                            address.split('/').map(|part| if part.starts_with('{') { "*" } else { part });
                        found.insert(parts.collect::<Vec<_>>().join("/"));
                    }
                }
            }
        }
        found
    }

    // Shows (Dashboard).
    #[test]
    fn every_address_that_is_not_a_page_is_known() {
        let known: BTreeSet<_> = FORMS.iter().map(|(pattern, _)| (*pattern).to_owned()).collect();
        assert_eq!(known, declared());
        assert_eq!(known.len(), FORMS.len(), "one is there twice");
    }

    #[test]
    fn the_page_of_a_form_is_above_the_address_of_the_form() {
        for (path, page) in [
            ("team/members/7/role", Some("team")),
            ("team/members/7/remove", None),
            ("operator/tenants/7/projects/8/quota", Some("operator/tenants/7")),
            ("theme", Some("")),
            ("theme/more", None),
            ("", None),
            ("support/7/files", Some("support/7")),
            ("support/7/files/8", None),
        ] {
            assert_eq!(page_of_form(path), page, "{path}");
        }
    }

    /// Opens an address as a browser does.
    async fn opened(site: &Site, path: &str, own: &str) -> HtmlPage {
        let request = http::Request::get(path).header(COOKIE, own).header(ACCEPT, "text/html");
        answered(site, request, Body::empty()).await
    }

    // Shows (Dashboard): No link or form around an answer leads to an address that answers 405.
    #[tokio::test]
    async fn the_answer_to_a_form_links_only_to_pages() {
        let site = site().await;
        let owner = cookie(&site, &site.member(Role::Owner).await);
        let operator = cookie(&site, &site.operator().await);
        let mut targets = BTreeSet::new();
        for (pattern, _) in FORMS {
            let own = if pattern.starts_with("operator") { &operator } else { &owner };
            let id = UserId(7).to_string();
            let id = if pattern.contains("invoices") { "2026-000001" } else { &id };
            let path = format!("/{}", pattern.replace('*', id));
            let alone = opened(&site, &path, own).await;
            assert_eq!(alone.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
            let refused = forged(&site, &path, own, &[]).await;
            assert!(refused.status.is_client_error(), "{path}: {} {}", refused.status, refused.text);
            for page in [alone, refused] {
                assert!(page.text.contains("<button name=\"theme\""), "{path}: {}", page.text);
                let links = attributes(&page.text, "href").into_iter().filter(|link| !link.starts_with('#'));
                targets.extend(links.map(|link| (own.clone(), followed(&path, link))));
                let backs = page.text.split("name=\"back\" value=\"").skip(1);
                let backs: Vec<_> = backs.filter_map(|rest| rest.split('"').next()).collect();
                assert_eq!(backs.len(), 1, "{path}");
                targets.extend(backs.iter().map(|back| (own.clone(), format!("/{back}"))));
            }
        }
        assert!(targets.len() > 40, "{targets:?}");
        for (own, target) in &targets {
            let page = opened(&site, target, own).await;
            assert_ne!(page.status, StatusCode::METHOD_NOT_ALLOWED, "{target}");
        }
    }

    #[test]
    fn a_path_that_a_browser_sends_stays_below_the_root() {
        for good in ["", "projects/7", "usage?period=7d&group=chain", "?period=7d", "explain?id=a:b"] {
            assert_eq!(below_root(good), good);
        }
        let elsewhere = [
            "/projects",
            "//evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            "java%73cript:alert(1)",
            "\\\\evil",
            "a/../../..",
            "a b",
            "a\r\nb",
            "é",
        ];
        for bad in elsewhere {
            assert_eq!(below_root(bad), "", "{bad}");
        }
        assert_eq!(below_root(&"a".repeat(MAX_WAY)), "");
    }

    #[test]
    fn a_redirect_stays_relative() {
        for (root, to, target) in [
            ("", "", "./"),
            ("", "login", "login"),
            ("../", "", "../"),
            ("../", "projects/7?done=x", "../projects/7?done=x"),
            ("", "?done=x", "./?done=x"),
        ] {
            assert_eq!(redirect(root, to).headers()[http::header::LOCATION], target);
        }
    }
}
