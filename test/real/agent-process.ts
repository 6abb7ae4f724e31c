// What `berth-agent runner`, `supervise`, `read-static` and `edge` do, as a program of its own, so that tests start them as real
// processes without the daemon. Like the real one, each loads only its own part.
import { readSettings } from '../../agent/src/settings.ts'

const [verb, dir = ''] = process.argv.slice(2)
const settings = readSettings(process.env)
if (verb === 'runner') {
  const { runAttempt } = await import('../../agent/src/runner/runner.ts')
  await runAttempt(dir, settings)
} else if (verb === 'supervise') {
  const { superviseService } = await import('../../agent/src/supervise/supervise.ts')
  await superviseService(dir, settings)
} else if (verb === 'gather') {
  const { runGather } = await import('../../agent/src/runner/gather.ts')
  runGather()
} else if (verb === 'read-static') {
  const { readStatic } = await import('../../agent/src/exec/static-reading.ts')
  process.exitCode = readStatic(JSON.parse(dir))
} else if (verb === 'edge') {
  const { startEdge } = await import('../../agent/src/exec/proxy/edge.ts')
  const { openEngine } = await import('../../agent/src/exec/docker/engine.ts')
  const { openEngineBook } = await import('../../agent/src/exec/proxy/engine-book.ts')
  const addresses = openEngineBook(openEngine(settings))
  await startEdge(settings, { addresses, log: (message) => console.error(message) })
} else if (verb === 'logs') {
  const { openEngine } = await import('../../agent/src/exec/docker/engine.ts')
  const { LogFollowers } = await import('../../agent/src/housekeeping/log-followers.ts')
  const { Ledger } = await import('../../agent/src/journal/ledger.ts')
  const { silentLog } = await import('../../agent/src/log.ts')
  const [engine, own] = [openEngine(settings), new Ledger(settings)]
  const followers = new LogFollowers({ engine, settings, log: silentLog, ledger: () => own })
  setInterval(() => followers.noteStart(), 200)
} else {
  throw new Error(`unknown verb ${verb}`)
}
