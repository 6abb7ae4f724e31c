// Warms up the file-sync code path of builds while the runner is idle; saves about 10 ms on the first build.
import { once } from 'node:events'
import { connect } from 'node:http2'
import { duplexPair } from 'node:stream'
import { BUILDS } from '../../../limits/docker.ts'
import { listContext } from './context.ts'
import { openTimes } from './context-times.ts'
import { FILES, serveSession } from './session.ts'

/** Lists the files of a folder over a session. */
export async function warmUpBuildSession(folder: string): Promise<void> {
  const [ours, theirs] = duplexPair()
  const engine = connect('http://localhost', { createConnection: () => theirs })
  engine.on('error', () => {})
  try {
    serveSession(ours, 'warm-up', {
      context: (wanted) => listContext(folder, wanted, openTimes(undefined)),
    })
    const asked = engine.request({
      ':method': 'POST',
      ':path': FILES,
      'dir-name': 'context',
      'exclude-patterns': 'none',
      followpaths: 'Dockerfile',
    })
    await once(asked, 'data', { signal: AbortSignal.timeout(BUILDS.warmUpMs) })
  } finally {
    engine.destroy()
    ours.destroy()
  }
}
