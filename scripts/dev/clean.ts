// `npm run clean`: removes what `npm start` made on this machine: services, accounts, packet rules, its private engine,
// and its data. Refuses while it runs.
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { removePrivateEngine } from './engine.ts'
import { choosePorts, findTaken } from './ports.ts'
import { agentEnvironment, digestOf, root, runAgent, systemFolder } from './server.ts'

const data = process.env.BERTH_DATA ?? join(root, '.data')

async function clean(): Promise<void> {
  if (!existsSync(join(data, 'ports.json'))) {
    console.log('There is nothing to remove: npm start has not run in this folder.')
    return
  }
  const ports = await choosePorts(data)
  if (await findTaken(ports, ['http', 'agent', 'git'])) {
    throw new Error('npm start still runs here. End it with Ctrl-C in its terminal first.')
  }
  const agentEnv = await agentEnvironment(data, ports)
  await runAgent(['uninstall', '--yes', '--purge', '--leave-engine'], agentEnv)
  removePrivateEngine(data, digestOf(data))
  for (const folder of [systemFolder(data), data]) rmSync(folder, { recursive: true, force: true })
  console.log(`Removed ${data}, the accounts of its environments, and everything that ran for it.`)
}

clean().catch((error: Error) => {
  console.error(`error: ${error.message}`)
  process.exitCode = 1
})
