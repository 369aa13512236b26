// What `openPostgres` loads: nothing of it is loaded by those who keep their store in a directory.
export { databasePlace } from './connection.js';
export { PostgresDatabase } from './PostgresDatabase.js';
export { PostgresIndexStore } from './PostgresIndexStore.js';
export { PostgresReplica } from './PostgresReplica.js';
export { verifyPostgres } from './verifyPostgres.js';
