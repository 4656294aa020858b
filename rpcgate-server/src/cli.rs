//! The command line.

use crate::demo_options::DemoOptions;
use clap::{Args, Parser, Subcommand};
use rpcgate_core::plan::Tier;
use rpcgate_import::SourceForm;
use rpcgate_process::{CheckArgs, CompletionArgs, ConfigFile, HealthArgs, ManualArgs};
use std::net::SocketAddr;
use std::path::PathBuf;

/// One host in front of many chains' nodes: keys, plans, metering, cache.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "rpcgate-server", version, arg_required_else_help = true)]
pub struct ServerCli {
    /// The command to execute.
    #[command(subcommand)]
    pub command: ServerCommand,
}

/// The commands of the program.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum ServerCommand {
    /// Serve the configuration until SIGTERM or Ctrl-C; SIGHUP reads it again
    Run(ConfigFile),
    /// Check the configuration and print the effective one with its secrets masked; or compare it with the running one
    Check(CheckArgs),
    /// Convert another gateway's configuration: eRPC, proxyd, dshackle or Kong
    Import(ImportArgs),
    /// Try it: a gateway with a simulated node for every chain, a key, and lines to paste
    Demo(DemoArgs),
    /// Check the health of the gateway on this host; exit code 1 if it is unhealthy
    Health(HealthArgs),
    /// Print completions for a shell
    Completions(CompletionArgs),
    /// Write manual pages into a folder
    Man(ManualArgs),
}

/// Options of the import.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ImportArgs {
    /// The file of the other gateway
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The gateway whose file it is [default: recognised if it is clear]
    #[arg(long, value_name = "GATEWAY", value_enum)]
    pub from: Option<SourceForm>,
    /// File for the configuration, which must not exist yet [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The chain of nodes for which the file names none, such as proxyd's
    #[arg(long, value_name = "CHAIN")]
    pub chain: Option<String>,
}

/// Options of the demo.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct DemoArgs {
    /// Folder for the demo's state
    #[arg(long, value_name = "DIR", default_value = "rpcgate-demo")]
    pub dir: PathBuf,
    /// Address of the gateway; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub gateway: SocketAddr,
    /// Address of the management side; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    pub admin: SocketAddr,
    /// Address for gRPC
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8443")]
    pub grpc: SocketAddr,
    /// A real node that replaces a simulated one; CHAIN.ws and CHAIN.grpc replace only that part. Repeatable
    #[arg(long = "node", value_name = "CHAIN=URL")]
    pub nodes: Vec<String>,
    /// Plan of the demo's account from now on: free, standard, premium or enterprise [default: as it is; enterprise at
    /// the first start]
    #[arg(long, value_name = "TIER")]
    pub plan: Option<Tier>,
    /// A configuration file that is read in addition to the demo's own settings
    #[arg(long, value_name = "FILE", env = "RPCGATE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Print deliveries of webhooks as they come to a receiver, which listens at this address; port 0 picks a free one
    #[arg(
        long,
        value_name = "ADDR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:0"
    )]
    pub webhook_echo: Option<SocketAddr>,
    /// Send traces of the gateway and of the management side to an OpenTelemetry collector (OTLP over gRPC), for example
    /// http://127.0.0.1:4317
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
}

/// Splits `CHAIN.PART=URL` into chain, part (`url` for the node itself) and URL. Faults are reported later, because
/// clap would print the URL with its password.
fn node(text: &str) -> (String, String, String) {
    let (name, url) = text.split_once('=').unwrap_or((text, ""));
    let (chain, part) = name.split_once('.').unwrap_or((name, "url"));
    (chain.to_owned(), part.to_owned(), url.to_owned())
}

impl From<DemoArgs> for DemoOptions {
    fn from(args: DemoArgs) -> Self {
        let DemoArgs { dir, gateway, admin, grpc, nodes, plan, config, webhook_echo, otlp } = args;
        let nodes = nodes.iter().map(|text| node(text)).collect();
        DemoOptions { dir, gateway, admin, grpc, nodes, plan, config, webhook_echo, otlp }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_process::settings::CheckedAgainst;

    fn parse(line: &str) -> Result<ServerCommand, clap::Error> {
        ServerCli::try_parse_from(std::iter::once("rpcgate-server").chain(line.split_whitespace()))
            .map(|cli| cli.command)
    }

    #[test]
    fn the_openapi_definition_is_valid() {
        use clap::CommandFactory;
        ServerCli::command().debug_assert();
    }

    #[test]
    fn run_and_check_take_a_file() {
        let file = ConfigFile { config: "a.toml".into() };
        assert_eq!(parse("run --config a.toml").unwrap(), ServerCommand::Run(file.clone()));
        let check = |against| ServerCommand::Check(CheckArgs { file: file.clone(), against });
        assert_eq!(parse("check --config a.toml").unwrap(), check(None));
        let running = Some(CheckedAgainst::Running);
        assert_eq!(parse("check --config a.toml --against running").unwrap(), check(running));
        for wrong in ["", "serve", "run", "run a.toml", "check --config", "check --config a --against x"] {
            assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }

    #[test]
    fn the_commands_of_supervisors_and_packagers_are_read() {
        let file = ConfigFile { config: "a.toml".into() };
        assert_eq!(
            parse("health --ready --config a.toml").unwrap(),
            ServerCommand::Health(HealthArgs { file: file.clone(), ready: true })
        );
        let ServerCommand::Health(args) = parse("health --config a.toml").unwrap() else { panic!("health") };
        assert_eq!((args.path(), args.file), ("/healthz", file));
        for shell in ["bash", "zsh", "fish"] {
            assert!(parse(&format!("completions {shell}")).is_ok(), "{shell}");
        }
        assert_eq!(parse("man d").unwrap(), ServerCommand::Man(ManualArgs { dir: "d".into() }));
        for wrong in ["completions", "completions tcl", "man", "health --url x"] {
            assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }

    #[test]
    fn an_import_takes_a_file_and_its_form() {
        let line = "import --from dshackle d.yaml --out r.toml --chain eth";
        let ServerCommand::Import(args) = parse(line).unwrap() else { panic!("import") };
        let file = "d.yaml".into();
        let out = Some("r.toml".into());
        let chain = Some("eth".to_owned());
        assert_eq!(args, ImportArgs { file, from: Some(SourceForm::Dshackle), out, chain });
        for wrong in ["import", "import --from nginx n.conf"] {
            assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }

    #[test]
    fn the_demo_needs_no_option() {
        let ServerCommand::Demo(args) = parse("demo").unwrap() else { panic!("demo") };
        let options = DemoOptions::from(args);
        assert_eq!(options.dir, PathBuf::from("rpcgate-demo"));
        assert_eq!(options.gateway.to_string(), "127.0.0.1:8080");
        assert_eq!(options.admin.to_string(), "127.0.0.1:8081");
        assert_eq!(options.grpc.to_string(), "127.0.0.1:8443");
        assert_eq!((options.plan, options.nodes, options.config), (None, vec![], None));
        assert_eq!((options.webhook_echo, options.otlp), (None, None));
    }

    #[test]
    fn the_demo_takes_several_nodes_and_their_parts() {
        let line = "demo --dir d --gateway 127.0.0.1:0 --plan free --config c.toml \
                    --node eth=http://u:p@h/?a=b --node eth=http://g/ --node eth.ws=ws://h/ --node btc.grpc=grpc://h";
        let ServerCommand::Demo(args) = parse(line).unwrap() else { panic!("demo") };
        let options = DemoOptions::from(args);
        let node = |chain: &str, part: &str, url: &str| (chain.to_owned(), part.to_owned(), url.to_owned());
        assert_eq!(
            options.nodes,
            [
                node("eth", "url", "http://u:p@h/?a=b"),
                node("eth", "url", "http://g/"),
                node("eth", "ws", "ws://h/"),
                node("btc", "grpc", "grpc://h"),
            ]
        );
        assert_eq!((options.plan, options.config), (Some(Tier::Free), Some("c.toml".into())));
    }

    // Shows (Webhooks).
    #[test]
    fn the_receiver_of_webhooks_listens_at_the_given_or_any_address() {
        for (line, expected) in [
            ("demo", None),
            ("demo --webhook-echo", Some("127.0.0.1:0")),
            ("demo --webhook-echo --plan free", Some("127.0.0.1:0")),
            ("demo --webhook-echo=127.0.0.1:9", Some("127.0.0.1:9")),
        ] {
            let ServerCommand::Demo(args) = parse(line).unwrap() else { panic!("demo") };
            assert_eq!(args.webhook_echo.map(|addr| addr.to_string()).as_deref(), expected, "{line}");
        }
        assert!(parse("demo --webhook-echo=nowhere").is_err());
    }

    #[test]
    fn an_unknown_plan_is_an_error() {
        assert!(parse("demo --plan gold").unwrap_err().to_string().contains("not a plan"));
    }
}
