// main shows the page that its own file holds.

import { byID } from './dom.js';
import { readHead, reader } from './data.js';
import { show } from './viewer.js';

show(byID('page'), readHead(document.querySelector('script.head')), reader([...document.querySelectorAll('script.figure')]), true);
