// What `openPostgres` loads: nothing of it is loaded by those who keep their store in a directory.
export { databasePlace } from './connection/databasePlace.js';
export { PostgresDatabase } from './connection/PostgresDatabase.js';
export { PostgresIndexStore } from './PostgresIndexStore.js';
export { PostgresReplica } from './reading/PostgresReplica.js';
export { repairPostgres } from './verify/repairPostgres.js';
export { verifyPostgres } from './verify/verifyPostgres.js';
export { surveyDatabase } from './reading/surveyDatabase.js';
