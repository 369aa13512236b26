import type { MarkdownRenderer } from 'vitepress';

/** Lets names of many words break behind an underscore, so that tables of them keep room for what is said of each. */
export function longNames(md: MarkdownRenderer): void {
  const render = md.renderer.rules.code_inline;
  if (render === undefined) throw new Error('VitePress renders code in another way: look at docs/.vitepress');
  md.renderer.rules.code_inline = (tokens, index, ...rest) =>
    render(tokens, index, ...rest).replaceAll(/(?<=[a-z])_(?=[a-z])/g, '_<wbr>');
}
