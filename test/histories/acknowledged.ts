// What a client knows of its deployment after one answer to the request with its Idempotency-Key.

interface Answer {
  status: number
  body: Record<string, unknown>
}

/** The task; `unknown` if the request must be repeated under its key; `refused` if there is no deployment. */
export function judgeDeployment(answer: Answer | undefined): number | 'unknown' | 'refused' {
  if (!answer || answer.status >= 500 || answer.status === 429) return 'unknown'
  const { status, body } = answer
  if (body.code === 'idempotency_in_flight') return 'unknown'
  // the effect is known and only its reply was lost
  const isMade = status < 300 || body.code === 'idempotency_not_replayable'
  return isMade && typeof body.id === 'number' ? body.id : 'refused'
}
