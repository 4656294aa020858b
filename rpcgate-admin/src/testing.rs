//! A site with all routes.

use crate::router::router;
use axum::Router;
use rpcgate_management::app_state::AppState;
pub(crate) use rpcgate_management::testing::*;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(crate) type Site = TestSite<AllRoutes>;

#[derive(Debug)]
pub(crate) enum AllRoutes {}

impl SiteRoutes for AllRoutes {
    fn router(app: &Arc<AppState>) -> Router {
        router(app, &CancellationToken::new())
    }
}

#[test]
#[cfg_attr(not(have_postgres), ignore = "needs postgresql (apt install postgresql)")]
fn the_management_service_behaves_the_same_on_postgresql_and_sqlite() {
    run_on_postgres(&["api::", "command::", "router::", "dispatcher::"]);
}
