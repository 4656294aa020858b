//! A server for an example, and the commands that try it.
#![expect(clippy::print_stdout, reason = "it prints what to try")]

use axum::Router;
use rpcgate_core::adapter::{Adapter, method_table};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

/// Serves an axum application on a free local port, and returns its address.
///
/// # Errors
/// If the machine has no free port.
pub async fn serve(app: Router) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    tokio::spawn(axum::serve(listener, app).into_future());
    Ok(addr)
}

/// Prints a title and a command for each path and body, and waits for Ctrl-C. An empty body means GET. Each request has
/// `header`.
///
/// # Errors
/// If Ctrl-C cannot be awaited.
pub async fn show(title: &str, addr: SocketAddr, header: &str, calls: &[(&str, &str)]) -> io::Result<()> {
    println!("{title}. Try:\n");
    for (path, body) in calls {
        let data = if body.is_empty() { String::new() } else { format!(" -d '{body}'") };
        println!("    curl -i http://{addr}{path} -H '{header}' -H 'content-type: application/json'{data}");
    }
    tokio::signal::ctrl_c().await
}

/// Prints a command for each JSON-RPC call, a method with a parameter if it is not empty, and waits for Ctrl-C.
///
/// # Errors
/// If Ctrl-C cannot be awaited.
pub async fn show_calls(addr: SocketAddr, key: &str, path: &str, calls: &[(&str, &str)]) -> io::Result<()> {
    println!("Try:\n");
    for (method, param) in calls {
        let params = if param.is_empty() { "[]".to_owned() } else { format!("[\"{param}\",\"latest\"]") };
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        println!("    curl -i http://{addr}{path} -H 'apikey: {key}' -d '{body}'");
    }
    tokio::signal::ctrl_c().await
}

/// Prints the rows of an adapter.
pub fn print_table(adapter: &dyn Adapter) {
    println!("{:#?}", method_table(adapter));
}
