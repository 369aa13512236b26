import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { messageOf } from '../daemon/Connection.js';
import { cleaned, find, findHref, keyOfAddress } from '../daemon/find.js';
import type { Found } from '../daemon/find.js';
import { Finding } from './Finding.js';

type Result = Found | { readonly key: string; readonly failure: string };

/** Finds a height or an id. The key is in the address, so that it can be linked to and the back button works. */
export function Search(): VNode {
  const [key, setKey] = useState(keyOfAddress);
  const [text, setText] = useState(key ?? '');
  const [result, setResult] = useState<Result | undefined>();
  const heading = useRef<HTMLHeadingElement>(null);

  useEffect(() => {
    const onChange = (): void => {
      const next = keyOfAddress();
      setKey(next);
      setText(next ?? '');
    };
    window.addEventListener('hashchange', onChange);
    return () => window.removeEventListener('hashchange', onChange);
  }, []);

  useEffect(() => {
    setResult(undefined);
    if (key === undefined) return undefined;
    let isWanted = true;
    const show = (found: Result): void => {
      if (isWanted) setResult(found);
    };
    find(key).then(show, (error: unknown) => show({ key, failure: messageOf(error) }));
    return () => {
      isWanted = false;
    };
  }, [key]);

  useEffect(() => {
    if (result !== undefined) heading.current?.focus();
  }, [result]);

  const onSubmit = (event: Event): void => {
    event.preventDefault();
    const wanted = cleaned(text);
    if (wanted === '') return;
    // The same key again: the address does not change.
    if (wanted === key) setKey(undefined);
    window.location.hash = findHref(wanted);
    setKey(wanted);
  };
  const onClose = (): void => {
    history.pushState(null, '', window.location.pathname);
    setKey(undefined);
    setText('');
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
      {key === undefined ? null : (
        <div class="panel found">
          <div class="foundHead">
            <h2 ref={heading} tabIndex={-1} class="long">
              {key}
            </h2>
            <button type="button" class="quiet" onClick={onClose}>
              Close
            </button>
          </div>
          {result === undefined ? <p class="dim">Looking …</p> : null}
          {result !== undefined && 'failure' in result ? <p class="bad">{result.failure}</p> : null}
          {result !== undefined && 'explanation' in result ? <Finding found={result} /> : null}
        </div>
      )}
    </section>
  );
}
