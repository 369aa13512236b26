import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { explain, fromRoot, messageOf, type Explanation } from './daemon.js';

/** Stages in which nothing is wrong. */
const SOUND: ReadonlySet<Explanation['stage']> = new Set([
  'indexed',
  'committing',
  'waiting_for_gap',
  'awaiting_proof',
]);

export function findHref(key: string): string {
  return `#find=${encodeURIComponent(key)}`;
}

/** The key in the address, however it is written; empty if there is none. */
function keyOfAddress(): string {
  return new URLSearchParams(window.location.hash.slice(1)).get('find')?.trim() ?? '';
}

/** A height or an id as people write it, with commas and spaces removed. */
function cleaned(text: string): string {
  const bare = text.trim();
  return /^[\d,._\s’']+$/.test(bare) ? bare.replaceAll(/\D/g, '') : bare;
}

type Result = Explanation | { readonly failure: string };

/** Finds a height or an id. The key is in the address, so that it can be linked to and the back button works. */
export function Search(): VNode {
  /** A new object for each search. */
  const [sought, setSought] = useState({ key: keyOfAddress() });
  const { key } = sought;
  const [text, setText] = useState(key);
  const [result, setResult] = useState<Result | undefined>();
  const heading = useRef<HTMLHeadingElement>(null);

  useEffect(() => {
    const onChange = (): void => {
      setSought({ key: keyOfAddress() });
      setText(keyOfAddress());
    };
    window.addEventListener('hashchange', onChange);
    return () => window.removeEventListener('hashchange', onChange);
  }, []);

  useEffect(() => {
    setResult(undefined);
    let isWanted = key !== '';
    const show = (found: Result): void => {
      if (isWanted) setResult(found);
    };
    if (isWanted) explain(key).then(show, (error: unknown) => show({ failure: messageOf(error) }));
    return () => {
      isWanted = false;
    };
  }, [sought]);

  useEffect(() => heading.current?.focus(), [result]);

  const onSubmit = (event: Event): void => {
    event.preventDefault();
    const wanted = cleaned(text);
    if (wanted === '') return;
    // Searching for the same key again does not change the address.
    if (wanted === key) setSought({ key });
    else window.location.hash = findHref(wanted);
  };
  const onClose = (): void => {
    window.location.hash = '';
  };
  return (
    <section class="search" aria-label="Find">
      <form role="search" onSubmit={onSubmit}>
        <label for="find">Find a height or an ID</label>
        <div class="field">
          <input
            id="find"
            type="search"
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
            placeholder="158000000, or 64 hexadecimal digits"
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            enterkeyhint="search"
          />
          <button type="submit">Find</button>
        </div>
      </form>
      {key !== '' && (
        <div class="panel found">
          <div class="title">
            <h2 ref={heading} tabIndex={-1} class="long">
              {key}
            </h2>
            <button type="button" class="quiet" onClick={onClose}>
              Close
            </button>
          </div>
          {result === undefined ? <p class="dim">Looking …</p> : <Finding result={result} />}
        </div>
      )}
    </section>
  );
}

/** Why it is indexed or not, all that is known about it, and a link to its document. */
function Finding({ result }: { readonly result: Result }): VNode {
  if ('failure' in result) return <p class="bad">{result.failure}</p>;
  const { height, key, kind, stage, summary } = result;
  const path = `lookup/${kind === 'height' ? 'block' : kind}/${key}`;
  return (
    <>
      <p>
        <span class={`pill ${SOUND.has(stage) ? 'ok' : 'busy'}`}>{stage.replaceAll('_', ' ')}</span> {summary}{' '}
        {height !== null && <a href={findHref(String(height))}>Height {height}</a>}
      </p>
      {stage === 'indexed' && (
        <p>
          <a class="long" href={fromRoot(path)}>
            /{path}
          </a>
        </p>
      )}
      <pre tabIndex={0} role="region" aria-label="Explanation as JSON">
        {JSON.stringify(result, null, 2)}
      </pre>
    </>
  );
}
