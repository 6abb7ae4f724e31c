// Shortens a received name for an answer. Text that cannot be a name may be a misplaced secret, and answers are logged,
// pasted and stored for replays; its first characters are enough to find the mistake.
import { VARIABLE_KEY } from '@berth/shared/service-file'

const SHORT = 8 // masking begins at this length too
const BEGINNING = 4

export const displayName = (name: string): string =>
  name.length < SHORT || VARIABLE_KEY.test(name) ? name : `${name.slice(0, BEGINNING)}…`
