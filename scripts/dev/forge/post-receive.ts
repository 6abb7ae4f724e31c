// Runs in git's hook after a push: sends the changed branches to the forge, and prints what the forge says meanwhile.
import { request } from 'node:http'
import { text } from 'node:stream/consumers'

const { env } = process
const options = Array.from(
  { length: Number(env.GIT_PUSH_OPTION_COUNT ?? 0) },
  (_, i) => env[`GIT_PUSH_OPTION_${i}`] ?? '',
)
const body = JSON.stringify({
  repository: env.BERTH_FORGE_REPOSITORY,
  changes: await text(process.stdin),
  options,
})
const headers = { 'content-type': 'application/json', 'x-hook-secret': env.BERTH_FORGE_SECRET }
const call = request(`${env.BERTH_FORGE_URL}/-/pushed`, { method: 'POST', headers }, (answer) => {
  answer.pipe(process.stdout)
})
call.on('error', () => console.log('The forge of npm start has ended; nothing is deployed.'))
call.end(body)
