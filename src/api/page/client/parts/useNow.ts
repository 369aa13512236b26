import { useEffect, useState } from 'preact/hooks';

const SECOND_MS = 1_000;

/** `performance.now()`, updated every second. */
export function useNow(): number {
  const [nowMs, setNow] = useState(() => performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), SECOND_MS);
    return () => clearInterval(timer);
  }, []);
  return nowMs;
}
