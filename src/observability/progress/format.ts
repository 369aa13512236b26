/** From large to small, in seconds. */
const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
  ['s', 1],
] as const;
const SIZE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** The two largest units of a duration: `13s`, `2m 13s`, `1h 33m`, `12d 4h`. Rounds down; negatives become 0. */
export function formatDuration(seconds: number): string {
  let rest = Math.max(0, Math.floor(seconds));
  const shown = UNITS.slice(UNITS.findIndex(([, size]) => rest >= size)).slice(0, 2);
  const parts = shown.map(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest %= size;
    return `${formatCount(count)}${unit}`;
  });
  return parts.join(' ');
}

/** A size with as many digits as matter: `512 B`, `1.5 MiB`, `412 GiB`. */
export function formatSize(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < SIZE_UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 10 ? 0 : 1;
  return `${value.toFixed(digits)} ${SIZE_UNITS[unit] ?? ''}`;
}

/** A whole number with thousands separators: `158,000,123`. */
export function formatCount(count: number): string {
  return String(Math.trunc(count)).replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** Heights per second, with as many digits as matter: `0.82/s`, `19.4/s`, `1,234/s`. */
export function formatRate(perSecond: number): string {
  if (perSecond < 10) return `${perSecond.toFixed(2)}/s`;
  if (perSecond < 1000) return `${perSecond.toFixed(1)}/s`;
  return `${formatCount(Math.round(perSecond))}/s`;
}
