//! An example call of a chain, as complete programs in five languages.

use super::parts::{CodeSnippet, CodeVariant};
use rpcgate_core::adapter::{Adapter, Probe};
use rpcgate_management::gateway_urls::GatewayUrls;

/// A cheap call that every node of its chain answers: the one with which gateways probe their nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExampleCall {
    pub(crate) title: &'static str,
    /// The name of its method, or its path.
    pub(crate) method: &'static str,
    url: String,
    /// The body of a `POST`; `None` for a `GET`.
    body: Option<String>,
}

impl ExampleCall {
    pub(crate) fn of(adapter: &dyn Adapter, urls: &GatewayUrls) -> Self {
        let facts = adapter.facts();
        let url = urls.http(facts.name.as_str());
        let title = facts.title;
        match adapter.probe() {
            Probe::Rpc { method, params } => {
                let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
                let body = match facts.dialect.version() {
                    Some(version) => {
                        format!(r#"{{"jsonrpc":{version},"id":1,"method":"{method}"{params}}}"#)
                    }
                    None => format!(r#"{{"method":"{method}"{params}}}"#),
                };
                ExampleCall { title, method, url, body: Some(body) }
            }
            Probe::Rest { target, body } => {
                let url = format!("{url}{target}");
                ExampleCall { title, method: target, url, body: body.map(str::to_owned) }
            }
        }
    }

    /// Returns programs that make the call with `key`. Each runs as it is pasted.
    pub(crate) fn snippet(&self, key: &str) -> CodeSnippet {
        let variant = |language, code| CodeVariant { language, code };
        CodeSnippet {
            name: "language",
            variants: vec![
                variant("curl", self.curl(key)),
                variant("JavaScript", self.javascript(key)),
                variant("Python", self.python(key)),
                variant("Go", self.go(key)),
                variant("Rust", self.rust(key)),
            ],
        }
    }

    fn curl(&self, key: &str) -> String {
        let url = &self.url;
        match &self.body {
            Some(body) => format!(
                "curl '{url}' \\\n  -H 'apikey: {key}' \\\n  -H 'content-type: application/json' \\\n  -d '{body}'"
            ),
            None => format!("curl '{url}' -H 'apikey: {key}'"),
        }
    }

    fn javascript(&self, key: &str) -> String {
        let url = &self.url;
        let options = match &self.body {
            Some(body) => format!(
                "  method: \"POST\",\n  headers: {{ apikey: \"{key}\", \"content-type\": \"application/json\" }},\n  \
                 body: '{body}',\n"
            ),
            None => format!("  headers: {{ apikey: \"{key}\" }},\n"),
        };
        format!(
            "// node call.mjs\nconst response = await fetch(\"{url}\", {{\n{options}}});\n\
             console.log(response.status, await response.text());"
        )
    }

    fn python(&self, key: &str) -> String {
        let url = &self.url;
        let (data, kind) = match &self.body {
            Some(body) => (format!("    data=b'{body}',\n"), ", \"content-type\": \"application/json\""),
            None => (String::new(), ""),
        };
        format!(
            "# python3 call.py\nimport urllib.request\n\nrequest = urllib.request.Request(\n    \"{url}\",\n{data}    \
             headers={{\"apikey\": \"{key}\"{kind}}},\n)\nwith urllib.request.urlopen(request) as response:\n    \
             print(response.status, response.read().decode())"
        )
    }

    fn go(&self, key: &str) -> String {
        let url = &self.url;
        let (import, request, kind) = match &self.body {
            Some(body) => (
                "\n\t\"strings\"",
                format!("http.NewRequest(\"POST\", \"{url}\", strings.NewReader(`{body}`))"),
                "\n\trequest.Header.Set(\"content-type\", \"application/json\")",
            ),
            None => ("", format!("http.NewRequest(\"GET\", \"{url}\", nil)"), ""),
        };
        format!(
            "// go run call.go\npackage main\n\nimport (\n\t\"fmt\"\n\t\"io\"\n\t\"log\"\n\t\"net/http\"{import}\n)\n\n\
             func main() {{\n\trequest, err := {request}\n\tif err != nil {{\n\t\tlog.Fatal(err)\n\t}}\n\t\
             request.Header.Set(\"apikey\", \"{key}\"){kind}\n\tresponse, err := http.DefaultClient.Do(request)\n\t\
             if err != nil {{\n\t\tlog.Fatal(err)\n\t}}\n\tdefer response.Body.Close()\n\t\
             answer, err := io.ReadAll(response.Body)\n\tif err != nil {{\n\t\tlog.Fatal(err)\n\t}}\n\t\
             fmt.Println(response.StatusCode, string(answer))\n}}"
        )
    }

    fn rust(&self, key: &str) -> String {
        let url = &self.url;
        let (start, end) = match &self.body {
            Some(body) => (
                format!("ureq::post(\"{url}\")\n        .header(\"content-type\", \"application/json\")"),
                format!(".send(r#\"{body}\"#)?"),
            ),
            None => (format!("ureq::get(\"{url}\")"), ".call()?".to_owned()),
        };
        format!(
            "// cargo add ureq@3\nfn main() -> Result<(), ureq::Error> {{\n    let mut answer = {start}\n        \
             .header(\"apikey\", \"{key}\")\n        {end};\n    \
             println!(\"{{}} {{}}\", answer.status(), answer.body_mut().read_to_string()?);\n    Ok(())\n}}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::Config;
    use rpcgate_core::chain::{Chain, Flags};
    use std::process::{Command, Stdio};

    const KEY: &str = "rpcg_pL7x2Va8sQmK4tZrEw9YbNcJ6uHf1DgT5oRi3XyMvB0q";

    fn calls() -> Vec<ExampleCall> {
        let urls = GatewayUrls::of(&Config::default());
        rpcgate_chains::catalog().map(|adapter| ExampleCall::of(&*adapter, &urls)).collect()
    }

    // Shows (Dashboard): The code for a first call is complete, for every chain and in five languages; the first call
    // is seen.
    #[test]
    fn every_chain_has_a_call_that_callers_may_make_and_that_needs_no_escapes() {
        for (adapter, call) in rpcgate_chains::catalog().zip(calls()) {
            let path = adapter.facts().name.as_str();
            assert!(call.url.starts_with(&format!("http://127.0.0.1:8080/{path}")), "{}", call.url);
            let chain = Chain::deployed(adapter.clone());
            let method = call.method.trim_start_matches('/');
            assert!(!chain.look_up(method).rule.flags.has(Flags::CLOSED), "{path} {method}");
            let body = call.body.as_deref().unwrap_or_default();
            // The body is embedded in string literals of several languages.
            assert!(!body.contains(['\'', '`', '\\', '\n']) && !body.contains("\"#"), "{body}");
            assert!(!call.url.contains(['\'', '"', '`', '\\', '\n', ' ']), "{}", call.url);
            if let Some(body) = &call.body {
                assert!(serde_json::from_str::<serde_json::Value>(body).is_ok(), "{body}");
            }
        }
    }

    // Shows (Dashboard).
    #[test]
    fn a_snippet_has_five_languages_each_with_the_url_and_the_key() {
        for call in calls() {
            let snippet = call.snippet(KEY);
            let languages: Vec<_> = snippet.variants.iter().map(|variant| variant.language).collect();
            assert_eq!(languages, ["curl", "JavaScript", "Python", "Go", "Rust"]);
            for variant in snippet.variants {
                assert!(variant.code.contains(&call.url) && variant.code.contains(KEY), "{}", variant.code);
            }
        }
    }

    #[test]
    fn the_code_is_what_a_reader_pastes() {
        let urls = GatewayUrls::of(&Config::default());
        let eth = ExampleCall::of(&*rpcgate_chains::by_path("eth").unwrap(), &urls);
        let body = eth.body.clone().unwrap();
        assert_eq!(
            eth.curl("K"),
            format!(
                "curl 'http://127.0.0.1:8080/eth' \\\n  -H 'apikey: K' \\\n  -H 'content-type: application/json' \\\n  \
                 -d '{body}'"
            )
        );
        assert_eq!(
            eth.rust("K"),
            format!(
                "// cargo add ureq@3\nfn main() -> Result<(), ureq::Error> {{\n    \
                 let mut answer = ureq::post(\"http://127.0.0.1:8080/eth\")\n        \
                 .header(\"content-type\", \"application/json\")\n        .header(\"apikey\", \"K\")\n        \
                 .send(r#\"{body}\"#)?;\n    \
                 println!(\"{{}} {{}}\", answer.status(), answer.body_mut().read_to_string()?);\n    Ok(())\n}}"
            )
        );
    }

    /// Runs a program that checks the text on its standard input.
    fn accepts(program: &str, arguments: &[&str], text: &str) -> bool {
        use std::io::Write as _;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait().unwrap().success()
    }

    #[test]
    #[cfg_attr(not(have_python), ignore = "needs python3")]
    fn python_parses_the_code_for_every_chain() {
        let read = "import ast, sys; ast.parse(sys.stdin.read())";
        for call in calls() {
            let code = call.python(KEY);
            assert!(accepts("python3", &["-c", read], &code), "{code}");
        }
        assert!(!accepts("python3", &["-c", read], "request = ("), "it would notice");
    }

    #[test]
    #[cfg_attr(not(have_node), ignore = "needs node")]
    fn node_parses_the_code_for_every_chain() {
        for call in calls() {
            let code = call.javascript(KEY);
            assert!(accepts("node", &["--check", "--input-type=module", "-"], &code), "{code}");
        }
    }

    #[test]
    #[cfg_attr(not(have_go), ignore = "needs go")]
    fn go_parses_the_code_for_every_chain() {
        for call in calls() {
            let code = call.go(KEY);
            assert!(accepts("gofmt", &["-e"], &code), "{code}");
        }
        assert!(!accepts("gofmt", &["-e"], "package main\nfunc main() {"), "it would notice");
    }
}
