// The house as a table: which room stands on which floor, and which packages belong to which room.
// eslint.config.js turns it into a lint rule; test/unit/house.test.ts shows that the rule bites.

/** Floors from the top; a room may import any room of a lower floor, none of its own or a higher one. */
export const floors = [
  ['cli'],
  ['app'],
  ['finality', 'collections', 'api'],
  ['access', 'storage', 'devnet'],
  ['flow', 'jobqueue', 'observability', 'config'],
  ['runtime'],
];

export const rooms = floors.flat();

/** Rooms that only some may use although they stand on a lower floor. */
const exclusive = {
  config: ['cli', 'app'],
  devnet: ['cli'],
};

/** Rooms that `room` may import. `jobqueue` knows nothing of Flow, so it gets nothing but `runtime`. */
export function roomsBelow(room) {
  const floor = floors.findIndex((names) => names.includes(room));
  return floors
    .slice(floor + 1)
    .flat()
    .filter((other) => !(other in exclusive) || exclusive[other].includes(room));
}

const packageHomes = {
  level: ['storage'],
  'classic-level': ['storage'],
  'abstract-level': ['storage'],
  '@grpc/grpc-js': ['access', 'api', 'devnet'],
  commander: ['cli'],
  convict: ['config'],
  fastify: ['api'],
  '@fastify/cors': ['api'],
  '@fastify/websocket': ['api'],
  ws: ['api'],
  'prom-client': ['observability'],
  pino: ['observability'],
  protobufjs: ['flow'],
};

/** `no-restricted-imports` paths for a room: third-party packages that live elsewhere. */
export function forbiddenPackages(room) {
  return Object.entries(packageHomes)
    .filter(([, homes]) => !homes.includes(room))
    .map(([name, homes]) => ({ name, message: `Only src/${homes.join(', src/')} may import ${name}.` }));
}
