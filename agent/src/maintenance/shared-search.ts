// Where on this machine everybody may write is searched for when the daemon starts and once a day: packages that are
// installed later make such folders too. Beside everything else; commands use what the last search found.
import { MAINTENANCE } from '@berth/shared'
import { describeError, type Log } from '../log.ts'
import { searchSharedPaths } from '../machine/users/shared-paths.ts'
import type { AgentSettings } from '../settings.ts'

/** Begins at once; returns how to end it. */
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
