// Whether the signed-in session still holds. Its end is announced over the page, so that nothing typed is lost.
import { createStore } from './stores.ts'

export const sessionEnded = createStore(false)

let isSignedIn = false

/** Called once the first answer for a signed-in person arrived. */
export function beginSession(): void {
  isSignedIn = true
  sessionEnded.set(false)
}

/** A refusal before anybody was signed in is the sign-in page's business, not the end of something. */
export function endSession(): void {
  if (isSignedIn) sessionEnded.set(true)
}

export function forgetSession(): void {
  isSignedIn = false
  sessionEnded.set(false)
}
