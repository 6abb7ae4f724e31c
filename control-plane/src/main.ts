// berth-control-plane [verify-audit]: environment → configuration → start → signals.
import { readConfig } from './config.ts'
import { checkAudit, startControlPlane } from './server.ts'

if (process.argv[2] === 'verify-audit') {
  const { rows, seq, hash, unchained, problems } = await checkAudit(readConfig(process.env))
  for (const problem of problems) console.log(problem)
  const old = unchained > 0 ? ` ${unchained} older rows are outside the chain.` : ''
  const verdict = problems.length === 0 ? 'the audit log is whole' : 'THE AUDIT LOG WAS CHANGED'
  console.log(`${rows} rows, head ${seq} ${hash}: ${verdict}.${old}`)
  process.exit(problems.length === 0 ? 0 : 1)
}
try {
  const controlPlane = await startControlPlane({
    config: readConfig(process.env),
    print: console.log,
    onLost: (message) => {
      console.error(`error: ${message}`)
      process.exit(1)
    },
  })
  console.log(
    `Berth listens at ${controlPlane.baseUrl}, for agents at port ${controlPlane.gateway.port}`,
  )
  if (controlPlane.setupToken) {
    console.log(`No administrator yet. One-time set-up token: ${controlPlane.setupToken}`)
  }
  const stop = (): void => {
    controlPlane.close().then(
      () => process.exit(0),
      () => process.exit(1),
    )
  }
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
} catch (error) {
  console.error(`error: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(1)
}
