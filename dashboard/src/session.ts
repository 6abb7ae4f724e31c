// Whether the login is still valid. Its end is announced over the page, so typed text is kept.
import { createStore } from './stores.ts'

export const sessionEnded = createStore(false)

let isSignedIn = false

/** Called after the first answer for a signed-in user. */
export function beginSession(): void {
  isSignedIn = true
  sessionEnded.set(false)
}

/** A refusal before the first sign-in belongs to the sign-in page and ends no session. */
export function endSession(): void {
  if (isSignedIn) sessionEnded.set(true)
}

export function forgetSession(): void {
  isSignedIn = false
  sessionEnded.set(false)
}
