//! Promise 41: no script runs from any stored text or from an address. Also checks the security headers of each page.

use crate::month::{Words, two_months};
use crate::site::{Dashboard, EMAIL, OPERATOR, in_browser_over_tls, log_in, log_out};
use crate::visited::{every_page, shape};
use rpcgate_tests::browser::PageReader;
use rpcgate_tests::client::TestClient;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// X1 to X8: for a text, an attribute with either quote, the end of an element that holds text, an address, a template
/// and a comment. Each would set `window.owned`.
const HOSTILE: [&str; 8] = [
    "<script>window.owned=1</script>",
    "\"><img src=x onerror=window.owned=1>",
    "'><svg/onload=window.owned=1>",
    "</title><script>window.owned=1</script>",
    "</textarea><script>window.owned=1</script>",
    "javascript:window.owned=1",
    "{{constructor.constructor('window.owned=1')()}}<%= owned=1 %>",
    "<!--<img src=\"--><img src=x onerror=window.owned=1//\">",
];

/// The addresses with a text of the reader that pages show again or follow.
const QUERIES: [&str; 9] = [
    "/usage?method=",
    "/usage?chain=",
    "/explain?id=",
    "/?done=",
    "/audit?action=",
    "/webhooks?project_id=",
    "/support?status=",
    "/chains/",
    "/step-up?next=",
];

fn words() -> Words {
    let all = || HOSTILE.map(str::to_owned).to_vec();
    let half = HOSTILE[..4].concat();
    Words {
        name: half.clone(),
        tenant: half.clone(),
        project: HOSTILE[4..].concat(),
        keys: all(),
        subjects: all(),
        text: HOSTILE.join("\n"),
        answer: HOSTILE.join("\n"),
        file: format!("{}.log", HOSTILE[1].replace('/', "")),
        reason: HOSTILE.join("\n"),
        token: HOSTILE[0].into(),
    }
}

/// Checks that no text has become a script or an element, and that the policy had nothing to refuse.
async fn is_harmless(reader: &PageReader, path: &str) {
    let script = "return [window.owned === undefined,
      document.querySelectorAll('main img, main script, main iframe, [onerror], [onload], [onclick], [style]').length,
      [...document.querySelectorAll('a[href], form[action], button[formaction]')].filter((one) =>
        /^\\s*(javascript|data|vbscript):/i.test(one.getAttribute('href') || one.getAttribute('action') ||
          one.getAttribute('formaction') || '')).length,
      [...document.scripts].filter((one) => !one.src.startsWith(location.origin + '/static/')).length]";
    assert_eq!(reader.run(script).await, json!([true, 0, 0, 0]), "{path}");
    let refused = reader.complaints().await.into_iter().filter(|one| one.contains("Content Security Policy"));
    assert_eq!(refused.collect::<Vec<_>>(), Vec::<String>::new(), "{path}");
}

// Shows (Dashboard): No script runs from a stored text or an address; pages have a strict policy, `__Host-` cookies and
// HSTS (promise 41).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_script_runs_from_a_stored_text_or_an_address() {
    in_browser_over_tls(async |dashboard: Arc<Dashboard>, reader: PageReader| {
        let written = words();
        two_months(&dashboard, &written).await;
        let mut shown = BTreeSet::new();
        for (email, first) in [(EMAIL, "/"), (OPERATOR, "/operator")] {
            log_in(&reader, email).await;
            let look = async |reader: &PageReader, path: &str| {
                is_harmless(reader, path).await;
                let text = reader.run("return document.body.textContent").await;
                if HOSTILE.iter().any(|hostile| text.as_str().unwrap().contains(hostile)) {
                    shown.insert(shape(path));
                }
            };
            every_page(&reader, &[first], look).await;
            if email == EMAIL {
                for query in QUERIES {
                    for hostile in HOSTILE {
                        let script = format!("return encodeURIComponent({})", json!(hostile));
                        let encoded = reader.run(&script).await;
                        let path = format!("{query}{}", encoded.as_str().unwrap());
                        reader.open(&path).await;
                        is_harmless(&reader, &path).await;
                    }
                }
            }
            reader.open("/").await;
            log_out(&reader).await;
        }
        // These pages show the texts unchanged: otherwise the test would check nothing.
        for page in ["/projects", "/projects/*", "/support", "/support/*", "/account/tokens", "/plan/request"]
        {
            assert!(shown.contains(page), "{page} is not among {shown:?}");
        }
    })
    .await;
}

// Shows (Dashboard).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn browsers_are_forbidden_to_run_or_send_anything_foreign() {
    in_browser_over_tls(async |dashboard: Arc<Dashboard>, reader: PageReader| {
        dashboard.owner().await;
        let client = TestClient::new(dashboard.service.addr(), None);
        for path in ["/login", "/register", "/nothing", "/projects"] {
            let page = client.send("GET", path, &[("accept", "text/html")], b"").await;
            let policy = page.header("content-security-policy").unwrap();
            for part in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"] {
                assert!(policy.contains(part), "{path}: {policy}");
            }
            assert!(!policy.contains("unsafe-") && !policy.contains('*'), "{path}: {policy}");
            assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{path}");
            let strict = page.header("strict-transport-security").unwrap();
            let seconds: u64 = strict.split(['=', ';']).nth(1).unwrap().trim().parse().unwrap();
            assert!(seconds >= 31_536_000, "{path}: {strict}");
        }
        log_in(&reader, EMAIL).await;
        assert_eq!(reader.run("return document.cookie").await, json!(""), "no script reads a cookie");
        let cookies = reader.devtools("Network.getCookies", &json!({ "urls": [reader.base] })).await;
        let cookies = cookies["cookies"].as_array().unwrap();
        let session = cookies.iter().find(|cookie| cookie["name"] == "__Host-rpcgate");
        let Some(session) = session else { panic!("{cookies:#?}") };
        assert_eq!(
            [&session["secure"], &session["httpOnly"], &session["sameSite"], &session["path"]],
            [&json!(true), &json!(true), &json!("Strict"), &json!("/")]
        );
        for cookie in cookies {
            assert_eq!([&cookie["secure"], &cookie["httpOnly"]], [&json!(true), &json!(true)], "{cookie}");
        }
        let stored = "return [localStorage.length, sessionStorage.length]";
        assert_eq!(reader.run(stored).await, json!([0, 0]), "nothing is kept where scripts read it");
        let planted = "const script = document.createElement('script'); script.textContent = 'window.owned = 1'; \
                       document.body.append(script); return window.owned === undefined";
        assert_eq!(reader.run(planted).await, json!(true), "the policy lets no script into a page");
        let refused = reader.complaints().await;
        assert!(refused.iter().any(|one| one.contains("Content Security Policy")), "{refused:?}");
    })
    .await;
}
