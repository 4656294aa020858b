//! Every page, found as a reader finds it: by the links of other pages.

use rpcgate_tests::browser::PageReader;
use serde_json::json;
use std::collections::{BTreeSet, VecDeque};

/// The pages for visitors who are not logged in.
pub(crate) const GATES: [&str; 8] = [
    "/login",
    "/login?next=projects",
    "/register",
    "/password/forgot",
    "/password/reset?token=x",
    "/confirm?token=x",
    "/invitation?token=x",
    "/nothing/here",
];

/// The maximum number of opened pages: a page that leads to ever new ones is a mistake.
const MOST: usize = 200;

/// The path segments that are followed by a name.
const BEFORE_NAMES: [&str; 4] = ["chains", "weights", "plans", "config"];

/// Returns the kind of the page at `path`: the address without identifiers, names and query.
pub(crate) fn shape(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap();
    let mut shape = Vec::new();
    for part in path.split('/') {
        let is_id = part.len() >= 8 && part.contains(|letter: char| letter.is_ascii_digit());
        let is_name = shape.last().is_some_and(|before| BEFORE_NAMES.contains(before));
        shape.push(if is_id || is_name { "*" } else { part });
    }
    shape.join("/")
}

/// Reports whether a link leads to another page for readers.
fn is_page(path: &str) -> bool {
    let foreign = ["/swagger", "/static", "/api", "/logout"];
    path.starts_with('/')
        && !foreign.iter().any(|folder| path.starts_with(folder))
        && !path.split('?').next().unwrap().ends_with(".csv")
        && !path.contains("/files/")
}

/// Opens and checks one page of each kind that links lead to, starting with `first`. Returns the kinds.
pub(crate) async fn every_page(
    reader: &PageReader,
    first: &[&str],
    mut look: impl AsyncFnMut(&PageReader, &str),
) -> BTreeSet<String> {
    let mut waiting: VecDeque<String> = first.iter().map(|path| (*path).to_owned()).collect();
    let mut known: BTreeSet<String> = waiting.iter().map(|path| shape(path)).collect();
    let mut opened = 0;
    while let Some(path) = waiting.pop_front() {
        opened += 1;
        assert!(opened <= MOST, "ever new pages: {known:#?}");
        reader.open(&path).await;
        reader.find("h1").await;
        look(reader, &path).await;
        let links = "return [...document.querySelectorAll('a[href]')].map((link) => link.href)";
        let links = reader.run(links).await;
        for link in links.as_array().unwrap() {
            let Some(path) = link.as_str().unwrap().strip_prefix(&reader.base) else { continue };
            let path = path.split('#').next().unwrap();
            if is_page(path) && known.insert(shape(path)) {
                waiting.push_back(path.to_owned());
            }
        }
    }
    known
}

pub(crate) async fn headline(reader: &PageReader) -> String {
    reader.run("return document.querySelector('h1').innerText").await.as_str().unwrap().to_owned()
}

/// Returns the flaws that do not depend on the content: the page is wider than the window, the browser complains about
/// it, or it has no title of its own.
pub(crate) async fn flaws(reader: &PageReader) -> Vec<String> {
    let mut flaws = Vec::new();
    let overflow = reader.overflow().await;
    if overflow != json!([]) {
        flaws.push(format!("is wider than the window: {overflow}"));
    }
    let title = reader.client.title().await.unwrap();
    if !title.ends_with(" · rpcgate") {
        flaws.push(format!("has the title {title:?}"));
    }
    for complaint in reader.complaints().await {
        // The page for an unknown path is answered with 404, which the browser reports.
        if !complaint.contains("/nothing/here") && !complaint.contains("status of 400") {
            flaws.push(complaint);
        }
    }
    flaws
}

#[test]
fn pages_of_a_kind_are_distinguished_from_others() {
    for (path, kind) in [
        ("/", "/"),
        ("/projects", "/projects"),
        ("/projects/0199a7e1-8c1b-7000-8000-000000000001/keys?done=x", "/projects/*/keys"),
        ("/invoices/2026-000001", "/invoices/*"),
        ("/operator/weights/eth", "/operator/weights/*"),
        ("/plan/request", "/plan/request"),
    ] {
        assert_eq!(shape(path), kind);
    }
    assert!(
        is_page("/usage?period=7d") && !is_page("/usage.csv?period=7d") && !is_page("https://example.com/")
    );
}
