// The house as a table: which room is on which floor, and which packages belong to which room.
// A room's sub-rooms have floors of their own.
// eslint.config.js turns it into a lint rule; test/unit/house.test.ts checks that the rule rejects violations.

/** Floors from the top. A room may import only rooms of lower floors. */
export const floors = [
  ['cli'],
  ['app'],
  ['finality', 'collections', 'ranges', 'api'],
  ['access', 'storage', 'devnet'],
  ['proof'],
  ['flow', 'jobqueue', 'observability', 'config'],
  ['runtime'],
];

export const rooms = floors.flat();

/** Rooms that only the named rooms may import, although others are above them too. */
const exclusive = { config: ['cli', 'app'], devnet: ['cli'] };

/** Rooms that `room` may import. `jobqueue` is independent of Flow, so it may import only `runtime`. */
export function roomsBelow(room) {
  const floor = floors.findIndex((names) => names.includes(room));
  return floors
    .slice(floor + 1)
    .flat()
    .filter((other) => !(other in exclusive) || exclusive[other].includes(room));
}

/**
 * The floors inside a room, from the top: sub-rooms, and files of the room itself. A part may import parts on lower
 * floors of its room. Files that are not named here are above all of them.
 */
const subFloors = {
  access: [
    ['survey'],
    ['pool'],
    ['node'],
    ['forwarding'],
    ['transport'],
    ['selection'],
    ['types.ts', 'UpstreamError.ts'],
  ],
  api: [
    ['rest', 'grpc'],
    ['ws'],
    ['page', 'feed'],
    ['openapi.ts'],
    ['documents'],
    ['http'],
    ['json.ts', 'server'],
    ['limits', 'guard'],
    ['view'],
    ['Schema.ts'],
  ],
  app: [['stores'], ['health'], ['line', 'threads', 'doctor'], ['lifecycle', 'guard']],
  cli: [
    ['commands'],
    ['export'],
    // The table of commands, which loads their code lazily.
    ['commands.ts'],
    ['output'],
    ['arguments', 'client'],
    ['command.ts'],
  ],
  collections: [['executionData'], ['requester', 'indexer'], ['heights'], ['faultReporter.ts'], ['ports.ts']],
  devnet: [['server'], ['node'], ['faults'], ['chain']],
  finality: [['blocks', 'proven'], ['forks', 'head'], ['ports.ts']],
  flow: [['responses.ts', 'verification'], ['entities'], ['ids'], ['wire'], ['WireError.ts', 'types.ts']],
  jobqueue: [
    ['pipeline', 'memory'],
    ['consumer', 'jobs'],
    ['types.ts', 'JobNotReadableError.ts'],
  ],
  observability: [['progress'], ['metrics'], ['health'], ['logs']],
  proof: [['documents'], ['certificates'], ['blocks'], ['committee'], ['ids']],
  runtime: [['output'], ['time', 'errors'], ['cancellation', 'text'], ['random.ts']],
  ranges: [
    ['local', 'pgboss', 'migration'],
    ['runningRanges.ts'],
    ['plans.ts'],
    ['planner.ts', 'sporkTurns.ts'],
    ['ports.ts'],
  ],
  storage: [
    ['postgres'],
    ['integrity'],
    ['leveldb'],
    ['verify'],
    ['accounts'],
    ['files'],
    ['records'],
    ['port'],
    ['StorageError.ts', 'lockHolder.ts'],
  ],
  'access/pool': [['AccessNetwork.ts'], ['NodePool.ts'], ['sporks'], ['PoolMember.ts'], ['identity']],
  'access/transport': [
    ['streams'],
    ['channel'],
    ['limits'],
    ['endpoint.ts', 'upstreamErrors.ts', 'ports.ts'],
  ],
  'api/grpc': [['calls'], ['refusals.ts']],
  'api/http': [['responses.ts'], ['refusals.ts'], ['types.ts']],
  'api/page': [['client']],
  'api/rest': [['daemonRoutes.ts', 'flowRoutes.ts'], ['eventStream.ts']],
  'app/health': [['diagnose.ts'], ['watches'], ['heldUp.ts']],
  'app/line': [['history'], ['buildLine.ts']],
  'ranges/pgboss': [['planQueues.ts', 'WorkerRegistry.ts'], ['Claim.ts'], ['Boss.ts']],
  'storage/integrity': [['verify']],
  'storage/leveldb': [['removal'], ['writing'], ['reading'], ['directory']],
  'storage/records': [
    ['reading'],
    ['book'],
    ['blocks'],
    ['schema.ts', 'Database.ts'],
    ['coding'],
    ['accountCoverage.ts', 'heightRanges.ts'],
  ],
  'storage/postgres': [['verify'], ['writing'], ['reading'], ['tables'], ['connection']],
};

/** Sub-rooms with sub-rooms of their own, as `room/sub-room`, to any depth. */
export const nestedRooms = Object.keys(subFloors).filter((name) => name.includes('/'));

/** The named parts of a room or nested room, each with the parts of the room that it may import besides itself. */
export function partsOf(room) {
  const inside = subFloors[room] ?? [];
  return inside.flatMap((names, floor) =>
    names.map((name) => {
      const lower = inside.slice(floor + 1).flat();
      // Files of one floor may import each other; sub-rooms of one floor may not.
      return { name, isFile: isFile(name), below: isFile(name) ? [...names, ...lower] : lower };
    }),
  );
}

export function isFile(name) {
  return name.endsWith('.ts');
}

/** The most lines that each room may have, and the tests. They only go down (check-weight.mjs). */
export const maxLines = {
  'src/access': 5_054,
  'src/api': 9_075,
  'src/app': 6_696,
  'src/cli': 4_184,
  'src/collections': 3_248,
  'src/config': 1_105,
  'src/devnet': 4_905,
  'src/finality': 2_295,
  'src/flow': 2_553,
  'src/jobqueue': 739,
  'src/observability': 1_355,
  'src/proof': 2_173,
  'src/ranges': 2_007,
  'src/runtime': 1_136,
  'src/storage': 10_722,
  'src/main.ts': 252,
  test: 59_885,
};

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
  pg: ['storage'],
  pgpass: ['storage'],
  'pg-boss': ['ranges'],
  tar: ['storage'],
  '@noble/curves/bls12-381.js': ['proof', 'devnet'],
  '@noble/hashes/sha3-addons.js': ['proof'],
  'hyparquet-writer': ['cli'],
  preact: ['api'],
  'preact/hooks': ['api'],
};

/** `no-restricted-imports` paths for a room: third-party packages that belong to other rooms. */
export function forbiddenPackages(room) {
  return Object.entries(packageHomes)
    .filter(([, homes]) => !homes.includes(room))
    .map(([name, homes]) => ({ name, message: `Only src/${homes.join(', src/')} may import ${name}.` }));
}
