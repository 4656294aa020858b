//! JSON shapes of projects.

use crate::shape::moment::Moment;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A project, the unit of metering. It has API keys, a quota and method lists.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Project)]
pub struct ProjectJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its tenant.
    #[schema(format = "uuid")]
    pub tenant_id: String,
    /// Its name.
    pub name: String,
    /// The only allowed methods, if not empty.
    pub allowed_methods: Vec<String>,
    /// The methods that are never allowed.
    pub blocked_methods: Vec<String>,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<rpcgate_store::Project> for ProjectJson {
    fn from(project: rpcgate_store::Project) -> Self {
        ProjectJson {
            id: project.id.to_string(),
            tenant_id: project.tenant.to_string(),
            name: project.name,
            allowed_methods: project.allowed_methods,
            blocked_methods: project.blocked_methods,
            created_at: project.created_at.into(),
        }
    }
}

/// A new project.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewProject {
    /// Its name, at most 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
}

/// A change to a project. Fields that are left out stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ProjectChange)]
pub struct ProjectChangeJson {
    /// Its name, at most 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// The only allowed methods, at most 200; an empty list allows all.
    #[schema(max_items = 200)]
    pub allowed_methods: Option<Vec<String>>,
    /// The methods that are never allowed, at most 200.
    #[schema(max_items = 200)]
    pub blocked_methods: Option<Vec<String>>,
}
