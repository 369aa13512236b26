import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { keepToken } from '../daemon/token.js';

/** Asks for the bearer token that the daemon wants. */
export function TokenForm({ onToken }: { readonly onToken: () => void }): VNode {
  const [text, setText] = useState('');
  const onSubmit = (event: Event): void => {
    event.preventDefault();
    const token = text.trim();
    if (token === '') return;
    setText('');
    keepToken(token);
    onToken();
  };
  return (
    <section class="search" aria-label="Token">
      <form onSubmit={onSubmit}>
        <label for="token">Bearer token, kept until this tab is closed</label>
        <div class="field">
          <input
            id="token"
            type="password"
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
            autocomplete="off"
          />
          <button type="submit">Use it</button>
        </div>
      </form>
    </section>
  );
}
