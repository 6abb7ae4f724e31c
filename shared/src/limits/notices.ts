// Limits of notifications that several packages know. Every number has its reason.
export const NOTIFICATIONS = {
  /** Per organization; each happening costs at most one row for each. */
  channels: 50,
  rules: 20,
  recipients: 20,
  nameCharacters: 64,
  urlCharacters: 2_000,
  addressCharacters: 254,
} as const

/** `GET /api/events`. */
export const PUBLIC_EVENTS = {
  /** Events of one page. */
  page: 100,
  pageMost: 500,
} as const
