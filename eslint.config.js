// The style rules of the project, and the rule of the house (docs/architecture.md, "The floors"): an import may only
// go down a floor, and may only enter another room by its index.ts.
import eslint from '@eslint/js';
import prettier from 'eslint-config-prettier';
import tseslint from 'typescript-eslint';
import { forbiddenPackages, isFile, nestedRooms, partsOf, roomsBelow, rooms } from './scripts/house.mjs';

/** What the files of a room may not import of other rooms. */
function roomPatterns(room) {
  const allowed = roomsBelow(room);
  const forbidden = rooms.filter((other) => other !== room && !allowed.includes(other));
  const patterns = [
    {
      regex: `^(?:\\.\\./)+(?:${rooms.filter((other) => other !== room).join('|')})/(?!index\\.js$)`,
      message: 'Enter another room by its index.js only (docs/architecture.md, "The floors").',
    },
  ];
  if (forbidden.length > 0) {
    patterns.push({
      regex: `^(?:\\.\\./)+(?:${forbidden.join('|')})(?:/|$)`,
      message: `src/${room} may not import this room: imports run downward only (docs/architecture.md, "The floors").`,
    });
  }
  patterns.push({ regex: '^(?:\\.\\./)+main\\.js$', message: 'Nothing imports main.ts.' });
  return patterns;
}

/**
 * Forbids a part of a room to import another part that does not stand below it. `depth`: how many folders below the
 * room the files of the part stand.
 */
function partPattern(room, { name, below }, depth) {
  const up = depth === 0 ? '\\./' : '\\.\\./'.repeat(depth);
  const targets = below.map((other) => (isFile(other) ? `${other.slice(0, -3)}\\.js$` : `${other}/`));
  return {
    regex: `^${up}(?!${['\\.\\./', ...targets].join('|')})`,
    message: `src/${room}/${name} may not import this: imports run downward inside a room too (scripts/house.mjs).`,
  };
}

function importRule(files, room, patterns) {
  return {
    files,
    rules: { 'no-restricted-imports': ['error', { patterns, paths: forbiddenPackages(room) }] },
  };
}

/** One config block per room, and one per part of it; a sub-room may have folders of its own. */
const roomBlocks = rooms.flatMap((room) => [
  importRule([`src/${room}/**/*.{ts,tsx}`], room, roomPatterns(room)),
  ...partsOf(room).flatMap((part) =>
    (part.isFile ? [part.name] : [`${part.name}/*.ts`, `${part.name}/*/*.{ts,tsx}`]).map((files) =>
      importRule([`src/${room}/${files}`], room, [
        ...roomPatterns(room),
        partPattern(room, part, files.split('/').length - 1),
      ]),
    ),
  ),
]);

/** A later block replaces the rule of an earlier one, so each repeats what holds for the rooms around it. */
const nestedBlocks = nestedRooms.flatMap((nested) => {
  const names = nested.split('/');
  const [room, ...inside] = names;
  return partsOf(nested).map((part) => {
    const folders = part.isFile ? names.length - 1 : names.length;
    const around = inside.map((name, index) => {
      const outer = names.slice(0, index + 1).join('/');
      const outerPart = partsOf(outer).find((each) => each.name === name);
      return partPattern(outer, outerPart, folders - index);
    });
    return importRule([`src/${nested}/${part.name}${part.isFile ? '' : '/*.{ts,tsx}'}`], room, [
      ...roomPatterns(room),
      ...around,
      partPattern(nested, part, part.isFile ? 0 : 1),
    ]);
  });
});

export default tseslint.config(
  { ignores: ['dist/', 'coverage/', 'node_modules/', 'data/', 'docs/.vitepress/{dist,cache}/'] },
  eslint.configs.recommended,
  {
    files: ['**/*.{ts,tsx}'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      eqeqeq: 'error',
      'no-console': 'error',
    },
  },
  {
    files: ['src/**/*.{ts,tsx}'],
    rules: {
      'no-restricted-syntax': [
        'error',
        {
          selector: 'ImportExpression:not([source.value=/^\\.\\u002f.+\\.js$/])',
          message: 'Import other rooms and packages statically: the floors are checked on static imports.',
        },
        {
          selector: 'MemberExpression[object.name="AbortSignal"][property.name="any"]',
          message: 'It leaves something behind on a signal that lives longer: use childOf of src/runtime.',
        },
      ],
    },
  },
  ...roomBlocks,
  ...nestedBlocks,
  {
    files: ['src/main.ts'],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [{ regex: '^\\./[^/]+/(?!index\\.js$)', message: 'Enter a room by its index.js only.' }],
        },
      ],
    },
  },
  {
    files: ['test/**/*.ts'],
    rules: { '@typescript-eslint/no-non-null-assertion': 'off', '@typescript-eslint/require-await': 'off' },
  },
  {
    // Scripts for a terminal: what they print is their result.
    files: ['test/*/run.ts', 'test/simulation/mutations.ts'],
    rules: { 'no-console': 'off' },
  },
  {
    files: ['scripts/**/*.mjs', 'docs/examples/*.mjs', '*.js'],
    languageOptions: {
      globals: {
        process: 'readonly',
        console: 'readonly',
        setTimeout: 'readonly',
        clearTimeout: 'readonly',
        setInterval: 'readonly',
        fetch: 'readonly',
        URL: 'readonly',
        AbortSignal: 'readonly',
        Buffer: 'readonly',
      },
    },
  },
  prettier,
);
