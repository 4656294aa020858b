//! Pictures of every page, for people to look at: in both themes, on a phone and on a wide screen, with two months of a
//! customer behind them.
//!
//! ```sh
//! SCREENSHOTS_DIR=/tmp/pictures cargo test --workspace --test dashboard -- --ignored pictures
//! ```

use crate::month::{Words, two_months};
use crate::site::{Dashboard, EMAIL, OPERATOR, in_browser, log_in, log_out};
use crate::visited::{GATES, every_page, shape};
use rpcgate_tests::browser::{BrowserKind, NARROW, PageReader, WIDE};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

async fn take(reader: &PageReader, path: &str, folder: &Path, width: u64) {
    let name = shape(path).replace('*', "id").trim_matches('/').replace('/', "-");
    let name = if name.is_empty() { "overview".to_owned() } else { name };
    for is_dark in [false, true] {
        reader.prefer_dark(is_dark).await;
        let theme = if is_dark { "dark" } else { "light" };
        fs::write(folder.join(format!("{name}-{width}-{theme}.png")), reader.picture().await).unwrap();
    }
}

async fn take_all(folder: PathBuf, width: u64) {
    let kind = BrowserKind { width, ..BrowserKind::default() };
    in_browser(kind, async move |dashboard: Arc<Dashboard>, reader: PageReader| {
        for path in GATES {
            reader.open(path).await;
            take(&reader, path, &folder, width).await;
        }
        two_months(&dashboard, &Words::usual()).await;
        for (email, first) in [(EMAIL, "/"), (OPERATOR, "/operator")] {
            log_in(&reader, email).await;
            let look = async |reader: &PageReader, path: &str| take(reader, path, &folder, width).await;
            every_page(&reader, &[first], look).await;
            reader.open("/").await;
            log_out(&reader).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it makes pictures for people"]
async fn pictures_of_every_page() {
    let folder = PathBuf::from(env::var_os("SCREENSHOTS_DIR").unwrap_or_else(|| "screenshots".into()));
    fs::create_dir_all(&folder).unwrap();
    take_all(folder.clone(), WIDE).await;
    take_all(folder.clone(), NARROW).await;
    assert!(fs::read_dir(folder).unwrap().count() > 100, "a picture of each page");
}
