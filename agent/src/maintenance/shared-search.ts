// Searches this machine for world-writable folders when the daemon starts and once a day, because packages installed
// later create such folders too. Runs in the background; commands use the result of the last search.
import { MAINTENANCE } from '../limits/maintenance.ts'
import { describeError, type Log } from '../log.ts'
import { searchSharedPaths } from '../machine/users/shared-paths.ts'
import type { AgentSettings } from '../settings.ts'

/** Begins immediately; returns a function that stops it. */
export function keepSearching(settings: AgentSettings, log: Log): () => void {
  const search = (): void => {
    searchSharedPaths(settings).catch((error: unknown) => {
      log.warn(
        describeError(error),
        'folders that everybody may write to could not be searched for',
      )
    })
  }
  search()
  const timer = setInterval(search, MAINTENANCE.searchEveryMs)
  timer.unref()
  return () => clearInterval(timer)
}
