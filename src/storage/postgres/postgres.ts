// What `openPostgres` loads: nothing of it is loaded by those who keep their store in a directory.
export { PostgresIndexStore } from './PostgresIndexStore.js';
export { PostgresReplica } from './PostgresReplica.js';
export { verifyPostgres } from './verifyPostgres.js';
