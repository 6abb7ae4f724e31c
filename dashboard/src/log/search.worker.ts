// Searches outside the page's thread, so that a runaway expression blocks nothing and can be ended from outside.
import { type SearchRequest, searchTexts } from './matching.ts'

addEventListener('message', ({ data }: MessageEvent<SearchRequest>) => {
  postMessage({ began: data.id }) // the timeout starts here
  postMessage(searchTexts(data))
})
postMessage({ began: 0 })
