// Formats times for clients. PURE.

/** UTC, without a fraction: 2026-11-14T07:31:02Z. */
export const toUtc = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`
