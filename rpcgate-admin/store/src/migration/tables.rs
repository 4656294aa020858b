//! A table as its entity describes it: columns, types and the primary key come from the entity.

use sea_orm::sea_query::{
    ColumnDef, ConditionalStatement, Expr, ForeignKey, ForeignKeyAction, Index, IndexCreateStatement, Table,
    TableCreateStatement,
};
use sea_orm::{DbBackend, DbErr, EntityTrait, Iterable, PrimaryKeyToColumn, Schema};
use sea_orm_migration::SchemaManager;

/// A table to create, with its indexes.
pub(super) struct EntityTable {
    backend: DbBackend,
    name: &'static str,
    table: TableCreateStatement,
    indexes: Vec<IndexCreateStatement>,
}

/// Returns the table of an entity.
pub(super) fn table<E: EntityTrait>(backend: DbBackend, entity: E) -> EntityTable {
    table_with(backend, entity, |_| {})
}

/// Returns the table of an entity, whose columns `adjust` changes.
pub(super) fn table_with<E: EntityTrait>(
    backend: DbBackend,
    entity: E,
    adjust: impl Fn(&mut ColumnDef),
) -> EntityTable {
    let schema = Schema::new(backend);
    let mut table = Table::create();
    table.table(entity.table_ref());
    for column in E::Column::iter() {
        let mut column = schema.get_column_def::<E>(column);
        adjust(&mut column);
        table.col(column);
    }
    if E::PrimaryKey::iter().count() > 1 {
        let mut key = Index::create();
        for column in E::PrimaryKey::iter() {
            key.col(column.into_column());
        }
        table.primary_key(&mut key);
    }
    EntityTable { backend, name: entity.table_name(), table, indexes: Vec::new() }
}

impl EntityTable {
    /// Makes `column` refer to a row of `to`, which cannot be deleted while it is referred to.
    pub(super) fn references<E: EntityTrait>(self, column: &'static str, to: E) -> Self {
        self.key(&[column], to, None)
    }

    /// Makes `columns` refer to a row of `to` by all columns of its key.
    pub(super) fn references_key<E: EntityTrait>(self, columns: &[&'static str], to: E) -> Self {
        self.key(columns, to, None)
    }

    /// Makes `column` refer to a row of `to`, with which this row is deleted.
    pub(super) fn deleted_with<E: EntityTrait>(self, column: &'static str, to: E) -> Self {
        self.key(&[column], to, Some(ForeignKeyAction::Cascade))
    }

    /// Makes `column` refer to a row of `to`, and null once that row is deleted.
    pub(super) fn cleared_with<E: EntityTrait>(self, column: &'static str, to: E) -> Self {
        self.key(&[column], to, Some(ForeignKeyAction::SetNull))
    }

    fn key<E: EntityTrait>(
        mut self,
        columns: &[&'static str],
        to: E,
        on_delete: Option<ForeignKeyAction>,
    ) -> Self {
        let mut key = ForeignKey::create();
        key.from_tbl(self.name).to_tbl(to.table_ref());
        for column in columns {
            key.from_col(*column);
        }
        for column in E::PrimaryKey::iter() {
            key.to_col(column.into_column());
        }
        if let Some(action) = on_delete {
            key.on_delete(action);
        }
        self.table.foreign_key(&mut key);
        self
    }

    /// Adds an index.
    pub(super) fn index(self, name: &'static str, columns: &[&'static str]) -> Self {
        self.indexed(name, columns, |_| {})
    }

    /// Adds an index that allows each value once.
    pub(super) fn unique(self, name: &'static str, columns: &[&'static str]) -> Self {
        self.indexed(name, columns, |index| {
            index.unique();
        })
    }

    /// Adds an index of the rows that meet `condition`.
    pub(super) fn index_where(self, name: &'static str, columns: &[&'static str], condition: Expr) -> Self {
        self.indexed(name, columns, |index| {
            index.and_where(condition);
        })
    }

    /// Adds an index that allows each value once among the rows that meet `condition`.
    pub(super) fn unique_where(self, name: &'static str, columns: &[&'static str], condition: Expr) -> Self {
        self.indexed(name, columns, |index| {
            index.unique().and_where(condition);
        })
    }

    fn indexed(
        mut self,
        name: &'static str,
        columns: &[&'static str],
        adjust: impl FnOnce(&mut IndexCreateStatement),
    ) -> Self {
        let mut index = Index::create();
        index.name(name).table(self.name);
        for column in columns {
            index.col(*column);
        }
        adjust(&mut index);
        self.indexes.push(index);
        self
    }

    /// Makes SQLite store the rows in the tree of the primary key, because the key is most of the row. PostgreSQL has no
    /// such option.
    pub(super) fn stored_by_key(mut self) -> Self {
        if self.backend == DbBackend::Sqlite {
            self.table.extra("WITHOUT ROWID");
        }
        self
    }

    /// Partitions the table by the UTC day of the block's identifier on PostgreSQL. Shipments create the partitions,
    /// retention drops them.
    pub(super) fn partitioned_by(mut self, block: &str) -> Self {
        if self.backend == DbBackend::Postgres {
            self.table.extra(format!("PARTITION BY RANGE ({block})"));
        }
        self
    }

    /// Creates the table and its indexes.
    pub(super) async fn create(self, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
        manager.create_table(self.table).await?;
        for index in self.indexes {
            manager.create_index(index).await?;
        }
        Ok(())
    }
}
