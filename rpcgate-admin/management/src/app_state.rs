//! The state that all actions share.

use crate::attachment::{AttachmentScanner, CommandScanner, Uploads};
use crate::cleanup_failures::CleanupFailures;
use crate::egress::{EgressClient, EgressError};
use crate::error::ActionError;
use crate::identity::address::{AddressGroup, TrustedProxies};
use crate::identity::challenge::Challenges;
use crate::identity::form_token::FormTokens;
use crate::identity::passkey::PasskeySite;
use crate::identity::password::{Passwords, QUEUE};
use crate::identity::recovery_code::RecoveryCodes;
use crate::identity::request_limits::RequestLimits;
use crate::identity::sealing::Sealing;
use crate::identity::token::{TokenError, TokenKind, Tokens};
use crate::identity::verifier::HostedVerifier;
use crate::mail::{MailError, MailQueue, Mailer};
use crate::payment::PaymentProvider;
use crate::payment::stripe::Stripe;
use crate::request_metrics::Requests;
use crate::request_traces::RequestTraces;
use crate::watch_metrics::WatchMetrics;
use crate::webhook::DeliveryCounts;
use crate::what_if_slots::WhatIfSlots;
use axum::extract::FromRef;
use rpcgate_config::{Config, Overlay, PREFIX, Secret, TicketSettings, Url};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::secret::KeyForge;
use rpcgate_process::Failure;
use rpcgate_process::traces::{BadCollector, TraceExporter};
use rpcgate_store::{AttemptKind, Store, StoreError, UsageStore};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The state of the management API. Other services take only the parts that they need.
#[derive(Debug)]
pub struct AppState {
    /// The management database.
    pub store: Store,
    /// The usage database.
    pub usage: UsageStore,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The configuration.
    pub settings: Settings,
    /// Hashes passwords.
    pub passwords: Passwords,
    /// Issues and checks access tokens.
    pub tokens: Tokens,
    /// Issues and checks the tokens of pages.
    pub page_tokens: Tokens,
    /// Issues and checks the tokens of forms.
    pub form_tokens: FormTokens,
    /// Encrypts secrets before they are stored.
    pub sealing: Sealing,
    /// Makes and checks recovery codes.
    pub recovery_codes: RecoveryCodes,
    /// The site for which passkeys are made. `None` if browsers make none for the dashboard's URL.
    pub passkeys: Option<PasskeySite>,
    /// Issues and checks the challenges for new accounts.
    pub challenges: Challenges,
    /// The configured provider of challenges, which replaces our own.
    pub verifier: Option<HostedVerifier>,
    /// The rate limits on requests.
    pub limits: Arc<RequestLimits>,
    /// The queue of outgoing mails.
    pub mails: MailQueue,
    /// Sends requests to the URLs of webhooks.
    pub egress: EgressClient,
    /// The metrics of deliveries.
    pub deliveries: DeliveryCounts,
    /// The payment provider, if one is configured.
    pub payments: Option<Arc<dyn PaymentProvider>>,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub proxies: TrustedProxies,
    /// Makes API keys.
    pub forge: KeyForge,
    /// Counts the old rows that could not be removed.
    pub cleanup_failures: CleanupFailures,
    /// The metrics of requests.
    pub requests: Requests,
    /// The traces of requests, if a collector is configured.
    pub traces: Option<RequestTraces>,
    /// The metrics of the watched chains.
    pub watch_metrics: WatchMetrics,
    /// The configured check of files before they are stored.
    pub scanner: Option<Arc<dyn AttachmentScanner>>,
    /// The running uploads.
    pub uploads: Uploads,
    /// Bounds the what-if requests that are answered at the same time.
    pub what_if_slots: WhatIfSlots,
}

/// The number of passwords that are hashed concurrently. A flood of log-ins can use only one core.
const HASHING: usize = 1;

/// The reason why an [`AppState`] cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppStateError {
    /// A configuration value is missing or cannot be used.
    #[error("{key}: {why}")]
    Configuration {
        /// The value's key.
        key: &'static str,
        /// The error, and how to fix it.
        why: String,
    },
    /// A database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Mails cannot be sent as configured.
    #[error(transparent)]
    Mail(#[from] MailError),
    /// Tokens cannot be signed.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl AppStateError {
    /// Reports whether the configuration has to be corrected.
    pub fn is_configuration(&self) -> bool {
        match self {
            AppStateError::Configuration { .. } | AppStateError::Mail(_) => true,
            AppStateError::Store(error) => matches!(error, StoreError::Url(_)),
            AppStateError::Token(error) => matches!(error, TokenError::ShortSecret),
        }
    }
}

impl From<AppStateError> for Failure {
    fn from(error: AppStateError) -> Self {
        Failure::new(error.is_configuration(), &error)
    }
}

impl AppState {
    /// Opens the databases and builds the state that `config` describes.
    ///
    /// # Errors
    /// [`AppStateError`]: a required secret is missing, or a database or the mail transport cannot be used.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> BoxFuture<'static, Result<Self, AppStateError>> {
        Box::pin(async move {
            let configured = Configured::of(&config, &clock)?;
            let url = config.database.url();
            let migrate = config.database.migrate;
            let store = Store::open(url, migrate).await?.with_plans(config.plans.clone());
            let usage = UsageStore::open(url, migrate).await?;
            let limits = Arc::new(RequestLimits::new(config.admin.auth_per_minute, &clock));
            let passwords = Passwords::new(HASHING, QUEUE);
            Ok(configured.into_app_state(store, usage, clock, config, passwords, limits))
        })
    }

    /// Builds the state for a new `config`, which takes effect at once, except for the databases. They stay open until
    /// a restart.
    ///
    /// # Errors
    /// Those of [`AppState::open`].
    pub fn reload(&self, config: Config) -> Result<Self, AppStateError> {
        let configured = Configured::of(&config, &self.clock)?;
        let usage = self.usage.clone();
        let clock = self.clock.clone();
        let store = self.store.clone().with_plans(config.plans.clone());
        let per_minute = config.admin.auth_per_minute;
        let limits = if per_minute == self.settings.auth_per_minute {
            self.limits.clone()
        } else {
            Arc::new(RequestLimits::new(per_minute, &clock))
        };
        let app = configured.into_app_state(store, usage, clock, config, self.passwords.clone(), limits);
        let mails = app.mails.clone().replacing(&self.mails);
        let deliveries = self.deliveries.clone();
        let watch_metrics = self.watch_metrics.clone();
        Ok(AppState {
            cleanup_failures: self.cleanup_failures.clone(),
            requests: self.requests.clone(),
            traces: self.traces.clone(),
            uploads: self.uploads.clone(),
            what_if_slots: self.what_if_slots.clone(),
            mails,
            deliveries,
            watch_metrics,
            ..app
        })
    }

    /// Counts a log-in, a registration or a similar attempt of a client: first in this process, which is cheap, then
    /// over all hosts of the same database.
    ///
    /// # Errors
    /// [`ActionError::TooMany`] beyond `admin.auth_per_minute`, [`ActionError::Unavailable`].
    pub async fn admit_attempt(&self, address: IpAddr) -> Result<(), ActionError> {
        self.limits.attempts.admit(address)?;
        let network = AddressGroup::of(address).to_string();
        let max = self.settings.auth_per_minute;
        let wait = self.store.admit_within_minute(AttemptKind::Clients(&network), max, self.now()).await?;
        let Some(wait) = wait else { return Ok(()) };
        let retry_after = u32::try_from(wait.as_micros().div_ceil(1_000_000)).unwrap_or(u32::MAX).max(1);
        Err(ActionError::TooMany { retry_after })
    }

    /// Starts to send the traces of requests if the configuration names a collector. States of later configurations
    /// keep it.
    ///
    /// # Errors
    /// [`BadCollector`]
    pub fn start_traces(&mut self) -> Result<Option<TraceExporter>, BadCollector> {
        let started = RequestTraces::start(&self.settings.config.telemetry.otlp, &self.clock)?;
        Ok(started.map(|(traces, exporter)| {
            self.traces = Some(traces);
            exporter
        }))
    }

    /// Returns the time at which an action decides.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns the configuration in force now, with the operators' settings applied.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn config_in_force(&self) -> Result<Config, StoreError> {
        Ok(self.settings.overridden_by(&self.store.overlay().await?.at(self.now())))
    }

    /// Closes all connections to the databases.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.store.close().await;
            self.usage.close().await;
        })
    }
}

impl FromRef<Arc<AppState>> for TrustedProxies {
    fn from_ref(app: &Arc<AppState>) -> Self {
        app.proxies.clone()
    }
}

/// The parts that depend only on the configuration.
struct Configured {
    tokens: Tokens,
    page_tokens: Tokens,
    form_tokens: FormTokens,
    sealing: Sealing,
    recovery_codes: RecoveryCodes,
    challenges: Challenges,
    verifier: Option<HostedVerifier>,
    mailer: Mailer,
    egress: EgressClient,
    payments: Option<Arc<dyn PaymentProvider>>,
    forge: KeyForge,
}

impl Configured {
    fn of(config: &Config, clock: &Arc<dyn Clock>) -> Result<Self, AppStateError> {
        let Config { gateway, admin, .. } = config;
        let key_secret = required(gateway.key_secret.as_ref(), "gateway.key_secret", 16)?;
        let jwt_secret = required(admin.jwt.secret.as_ref(), "admin.jwt.secret", 32)?;
        let verifier = HostedVerifier::new(&admin.challenge, admin.dash_url.as_ref()).map_err(|error| {
            AppStateError::Configuration { key: "admin.challenge.verify_url", why: error.to_string() }
        })?;
        let stripe = Stripe::configured(&config.billing.stripe)
            .map_err(|(key, why)| AppStateError::Configuration { key, why })?;
        let egress = EgressClient::new(&config.webhooks, clock.clone()).map_err(|error| {
            let key = match error {
                EgressError::Authorities(_) => "webhooks.ca_file",
                _ => "webhooks.egress_proxy",
            };
            AppStateError::Configuration { key, why: error.to_string() }
        })?;
        let secret = jwt_secret.expose().as_bytes();
        let former = || admin.jwt.former_secrets.iter().map(|secret| secret.expose().as_bytes());
        let tokens =
            |kind| Ok::<_, TokenError>(Tokens::new(kind, secret, admin.jwt.access_ttl)?.accepting(former()));
        let difficulty = admin.challenge.difficulty;
        let challenges = match &admin.challenge.secret {
            Some(own) => Challenges::new(own.expose().as_bytes(), difficulty),
            None => Challenges::new(secret, difficulty).accepting(former()),
        };
        let former_keys = gateway.former_key_secrets.iter().map(|secret| secret.expose().as_bytes());
        Ok(Configured {
            tokens: tokens(TokenKind::Access)?,
            page_tokens: tokens(TokenKind::Page)?,
            form_tokens: FormTokens::new(secret).accepting(former()),
            sealing: Sealing::new(secret).accepting(former()),
            recovery_codes: RecoveryCodes::new(secret).accepting(former()),
            challenges,
            verifier,
            mailer: match &admin.mail.smtp {
                Some(url) => Mailer::smtp(url.expose(), &admin.mail)?,
                None => Mailer::outbox(&admin.mail.outbox, &admin.mail.from)?,
            },
            egress,
            payments: stripe.map(|stripe| Arc::new(stripe) as Arc<dyn PaymentProvider>),
            forge: KeyForge::new(key_secret.expose().as_bytes()).accepting(former_keys),
        })
    }

    fn into_app_state(
        self,
        store: Store,
        usage: UsageStore,
        clock: Arc<dyn Clock>,
        config: Config,
        passwords: Passwords,
        limits: Arc<RequestLimits>,
    ) -> AppState {
        let Configured {
            tokens,
            page_tokens,
            form_tokens,
            sealing,
            recovery_codes,
            challenges,
            verifier,
            mailer,
            egress,
            payments,
            forge,
        } = self;
        let mails = MailQueue::new(mailer, sealing.clone(), store.clone());
        let proxies = TrustedProxies::new(&config.gateway.trusted_proxies);
        let scanner = scanner(&config.admin.tickets);
        let settings = Settings::new(config);
        let requests = Requests::default();
        let passkeys = PasskeySite::at(&settings.dash_url);
        AppState {
            store,
            usage,
            clock,
            settings,
            passwords,
            tokens,
            page_tokens,
            form_tokens,
            sealing,
            recovery_codes,
            passkeys,
            challenges,
            verifier,
            limits,
            mails,
            egress,
            deliveries: DeliveryCounts::default(),
            payments,
            proxies,
            forge,
            cleanup_failures: CleanupFailures::default(),
            requests,
            traces: None,
            watch_metrics: WatchMetrics::default(),
            scanner,
            uploads: Uploads::default(),
            what_if_slots: WhatIfSlots::default(),
        }
    }
}

fn scanner(tickets: &TicketSettings) -> Option<Arc<dyn AttachmentScanner>> {
    if tickets.scan.is_empty() {
        return None;
    }
    Some(Arc::new(CommandScanner::new(tickets.scan.clone(), tickets.scan_timeout)))
}

fn required<'c>(
    secret: Option<&'c Secret>,
    key: &'static str,
    min: u32,
) -> Result<&'c Secret, AppStateError> {
    secret.ok_or_else(|| {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        let variable = key.to_uppercase().replace('.', "__");
        let why = format!(
            "is needed here and is not set: write {name} = {{ file = \"…\" }} below [{table}], a file with at least \
             {min} random bytes that is the same for every host, or set {PREFIX}{variable}"
        );
        AppStateError::Configuration { key, why }
    })
}

/// The configuration values that actions use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The dashboard's URL for users, without a trailing slash. Mails link to pages below it.
    pub dash_url: String,
    /// The management host's URL for users, without a trailing slash.
    pub api_url: String,
    /// The lifetime of an unused refresh token.
    pub refresh_ttl: Duration,
    /// The maximum lifetime of a session, however often it is renewed.
    pub session_ttl: Duration,
    /// The number of log-ins and registrations together that one client address may attempt per minute.
    pub auth_per_minute: u32,
    /// The whole configuration, without the operators' settings.
    pub config: Config,
}

impl Settings {
    /// Extracts the settings from `config`.
    pub fn new(config: Config) -> Self {
        let admin = &config.admin;
        let scheme = if admin.tls.is_served() { "https" } else { "http" };
        let own = format!("{scheme}://{}", admin.listen);
        let url = |given: Option<&Url>| {
            given.map_or(own.as_str(), |url| url.expose()).trim_end_matches('/').to_owned()
        };
        Settings {
            dash_url: url(admin.dash_url.as_ref()),
            api_url: url(admin.api_url.as_ref()),
            refresh_ttl: admin.jwt.refresh_ttl,
            session_ttl: admin.jwt.session_ttl,
            auth_per_minute: admin.auth_per_minute,
            config,
        }
    }

    /// Returns the configuration with the operators' settings applied.
    pub fn overridden_by(&self, overlay: &Overlay) -> Config {
        overlay.over(&self.config)
    }
}

#[cfg(test)]
pub(crate) mod tests;
