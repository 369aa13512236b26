// Loaded by `loadPostgres` alone: a daemon whose store is in a directory does not load the packages for PostgreSQL.
export { databasePlace } from './connection/databasePlace.js';
export { PostgresDatabase } from './connection/PostgresDatabase.js';
export { PostgresIndexStore } from './PostgresIndexStore.js';
export { openPostgresReplica } from './reading/postgresReader.js';
export { repairPostgres, verifyPostgres } from './verify/verifyPostgres.js';
export { surveyDatabase } from './reading/surveyDatabase.js';
