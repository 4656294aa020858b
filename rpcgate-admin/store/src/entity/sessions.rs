//! Active sessions.

use crate::query::named::named_values;
use crate::query::{SessionId, UserId};
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

/// The credentials of a log-in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LogInMethod {
    /// A password alone, because the user had no second factor.
    Password,
    /// A password and a code of an authenticator app.
    PasswordAndCode,
    /// A password and a recovery code.
    PasswordAndRecoveryCode,
    /// A password and a passkey.
    PasswordAndPasskey,
    /// A passkey alone, which is two factors: the device and its unlock method.
    Passkey,
}

impl LogInMethod {
    /// All methods.
    pub const ALL: [LogInMethod; 5] = [
        LogInMethod::Password,
        LogInMethod::PasswordAndCode,
        LogInMethod::PasswordAndRecoveryCode,
        LogInMethod::PasswordAndPasskey,
        LogInMethod::Passkey,
    ];

    /// Returns its name in the API and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            LogInMethod::Password => "password",
            LogInMethod::PasswordAndCode => "password+totp",
            LogInMethod::PasswordAndRecoveryCode => "password+recovery_code",
            LogInMethod::PasswordAndPasskey => "password+passkey",
            LogInMethod::Passkey => "passkey",
        }
    }

    /// Reports whether it includes a second factor.
    pub const fn has_second_factor(self) -> bool {
        !matches!(self, LogInMethod::Password)
    }
}

named_values!(LogInMethod, "log-in method", as_str);

/// An active session.
#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "sessions")]
pub struct Model {
    /// Its identifier.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: SessionId,
    /// The user who logged in.
    #[sea_orm(column_name = "user_id", enum_name = "UserId")]
    pub user: UserId,
    /// The time of the log-in.
    pub created_at: Time,
    /// The time of the last use, to a few minutes.
    pub seen_at: Time,
    /// The expiry time, unless it is refreshed before.
    pub expires_at: Time,
    /// The client's address at the log-in.
    pub address: String,
    /// The client's user agent at the log-in.
    pub agent: String,
    /// The credentials of the log-in.
    #[sea_orm(default_value = "password")]
    pub method: LogInMethod,
    /// The client's address at the last use.
    #[sea_orm(default_value = "")]
    pub seen_address: String,
    /// The last time when the user gave a second factor in it.
    pub factor_at: Option<Time>,
    /// The last time when the user gave the password or a second factor in it, not counting the log-in.
    pub proved_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    #[sea_orm(belongs_to = "super::users::Entity", from = "Column::UserId", to = "super::users::Column::Id")]
    User,
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
