//! `rpcgate-admin explain`: explains the answer to a request.

use super::command_error::CommandError;
use super::console::Console;
use super::printer::{Printable, or_dash};
use crate::cli::doctor::ExplainArgs;
use rpcgate_core::caller::RequestId;
use rpcgate_management::action;
use rpcgate_management::shape::explain::{
    CallExplanationJson, ExplanationJson, NamedJson, NodeTryJson, QuotaUseJson, RefusalJson, WindowUseJson,
};

impl Printable for ExplanationJson {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("REQUEST", 36), ("ARRIVED", 24), ("CHAIN", 10), ("TOTAL MS", 10), ("CALLS", 0)];

    fn cells(&self) -> Vec<String> {
        let id = self.request_id.clone();
        let arrived = self.arrived_at.to_string();
        let methods: Vec<_> = self.calls.iter().map(|call| call.method.as_str()).collect();
        vec![id, arrived, self.chain.clone(), self.total_ms.to_string(), methods.join(", ")]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let lines = |lines: Vec<String>| lines.join("\n");
        let windows = self.windows.as_ref().map(|all| {
            let named = [("minute", &all.minute), ("hour", &all.hour), ("day", &all.day)];
            lines(named.iter().map(|(name, window)| window_line(name, window)).collect())
        });
        let mut tries: Vec<_> = self.tries.iter().map(try_line).collect();
        if self.tries_left_out > 0 {
            tries.push(format!("and {} more", self.tries_left_out));
        }
        vec![
            ("request", self.request_id.clone()),
            ("gateway", self.gateway.clone()),
            ("tenant", named(&self.tenant)),
            ("project", named(&self.project)),
            ("key", format!("{} {}", or_dash(self.key.prefix.as_ref()), self.key.id)),
            ("plan", self.plan.clone()),
            ("scaled down", yes(self.scaled_down)),
            ("transport", self.transport.clone()),
            ("chain", self.chain.clone()),
            ("batch", yes(self.batch)),
            ("lasting", yes(self.lasting)),
            ("arrived at", self.arrived_at.to_string()),
            ("milliseconds", format!("{} in all, {} at nodes", self.total_ms, self.node_ms)),
            ("compute units", self.cu.to_string()),
            ("counted", self.counted.to_string()),
            ("windows", windows.unwrap_or_default()),
            ("quota", self.quota.as_ref().map(quota_line).unwrap_or_default()),
            ("refusal", self.refusal.as_ref().map(refusal_line).unwrap_or_default()),
            ("calls", lines(self.calls.iter().map(call_line).collect())),
            ("tries at nodes", lines(tries)),
        ]
    }
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

fn named(one: &NamedJson) -> String {
    format!("{} {}", one.name.as_deref().unwrap_or("(deleted)"), one.id)
}

fn window_line(name: &str, window: &WindowUseJson) -> String {
    let WindowUseJson { limit, before, after, reset_s } = window;
    format!("{name}: {before} before, {after} after, of {limit}; begins again in {reset_s} s")
}

fn quota_line(quota: &QuotaUseJson) -> String {
    let QuotaUseJson { limit, before, after, reserved } = quota;
    format!("{before} before, {after} after, of {limit}; {reserved} reserved")
}

fn refusal_line(refusal: &RefusalJson) -> String {
    let RefusalJson { status, message, retry_after } = refusal;
    let later = retry_after.map(|seconds| format!("; again in {seconds} s")).unwrap_or_default();
    format!("{status} {message}{later}")
}

fn call_line(call: &CallExplanationJson) -> String {
    let CallExplanationJson { method, outcome, status, weight, cu, cache, refusal, failure } = call;
    let why = refusal.as_ref().map(refusal_line).or_else(|| failure.clone());
    let why = why.map(|why| format!("; {why}")).unwrap_or_default();
    format!("{method}: {outcome} {status}, weight {weight}, {cu} CU, cache {cache}{why}")
}

fn try_line(one: &NodeTryJson) -> String {
    let calls: Vec<_> = one.calls.iter().map(ToString::to_string).collect();
    let address = one.address.as_deref().unwrap_or("its address was changed since");
    let failure = one.failure.as_ref().map(|failure| format!(" ({failure})")).unwrap_or_default();
    let began = or_dash(one.began_ms);
    let took = or_dash(one.took_ms);
    format!(
        "calls {} to node {} ({address}), chosen as {}: {}{failure}, began at {began} ms, took {took} ms",
        calls.join(", "),
        one.node,
        one.choice,
        one.end
    )
}

pub(super) async fn execute(console: &mut Console<'_>, args: &ExplainArgs) -> Result<(), CommandError> {
    let request: RequestId = args
        .request
        .parse()
        .map_err(|_| CommandError::usage("the request is named by the x-request-id of its answer, a UUID"))?;
    let explained = action::explain::explain(&console.app, &console.actor(), request).await?;
    Ok(console.printer.object(&ExplanationJson::from(explained))?)
}

#[cfg(test)]
mod tests {
    use super::super::console::tests::run;
    use crate::testing::Site;
    use rpcgate_core::caller::{KeyId, ProjectId, RequestId};
    use rpcgate_store::{
        ExplainedCall, ExplainedTry, Explanation, GatewayReport, RefusalShown, WindowUse, fresh_id,
    };

    /// Creates a site with a gateway that remembers a request, and returns the request and its tenant.
    async fn remembered(site: &Site) -> (RequestId, String) {
        let request = RequestId::new(site.app.now());
        let tenant = site.tenant().await;
        let call = ExplainedCall {
            method: "eth_call".into(),
            outcome: "refused".into(),
            status: 429,
            weight: 15,
            cu: 0,
            cache: "not_asked".into(),
            refusal: Some(RefusalShown { status: 429, message: "too many".into(), retry_after: Some(7) }),
            failure: None,
        };
        let one = ExplainedTry {
            calls: vec![0],
            node: 2,
            address: Some("http://node.example".into()),
            choice: "turn".into(),
            end: "answered".into(),
            failure: None,
            began: None,
            took: Some(1_500),
        };
        let window = WindowUse { limit: 60, before: 60, after: 60, reset: 7 };
        let explanation = Explanation {
            gateway: "a".into(),
            tenant: tenant.to_string(),
            project: ProjectId(5).to_string(),
            key: KeyId(6).to_string(),
            plan: "free".into(),
            transport: "http".into(),
            chain: "eth".into(),
            calls: vec![call],
            tries: vec![one],
            windows: vec![window.clone(), window.clone(), window],
            ..Explanation::default()
        };
        let store = site.app.store.clone();
        let now = site.app.now();
        let report = GatewayReport { id: fresh_id(now), at: now, nodes: Vec::new() };
        store.put_report(&report, &[]).await.unwrap();
        // It is known because it was asked for before.
        let question = store.ask_explanation(request, None, now).await.unwrap();
        store.answer_explanation_request(question, tenant, &explanation).await.unwrap();
        (request, tenant.to_string())
    }

    // Shows (Traces, logs and metrics): Operators on the machine get the API's explanation of a request.
    #[tokio::test]
    async fn an_operator_on_the_machine_gets_the_answer_of_the_api_with_the_nodes() {
        let site = Site::new().await;
        let (request, tenant) = remembered(&site).await;
        let lines = run(&site, None, &format!("explain {request} --json")).await.json();
        assert_eq!(lines.len(), 1);
        assert_eq!(
            (&lines[0]["request_id"], &lines[0]["tenant"]["id"]),
            (&request.to_string().into(), &tenant.into())
        );
        assert_eq!(lines[0]["tries"][0]["address"], "http://node.example");
        let shown = run(&site, None, &format!("explain {request}")).await;
        assert_eq!(shown.code, 0, "{}", shown.messages);
        for text in [
            "chain: eth\n",
            "  minute: 60 before, 60 after, of 60; begins again in 7 s\n",
            "calls: eth_call: refused 429, weight 15, 0 CU, cache not_asked; 429 too many; again in 7 s\n",
            "to node 2 (http://node.example), chosen as turn: answered, began at - ms, took 1.5 ms\n",
        ] {
            assert!(shown.out.contains(text), "{text} is not in\n{}", shown.out);
        }
    }

    // Shows (Traces, logs and metrics).
    #[tokio::test]
    async fn an_unknown_request_and_an_invalid_identifier_have_codes_of_their_own() {
        let site = Site::new().await;
        let unknown = RequestId::new(site.app.now());
        let outcome = run(&site, None, &format!("explain {unknown}")).await;
        assert!(outcome.code == 3 && outcome.messages.contains("no gateway remembers"), "{outcome:?}");
        let outcome = run(&site, None, "explain 12").await;
        assert!(outcome.code == 2 && outcome.messages.contains("x-request-id"), "{outcome:?}");
    }
}
