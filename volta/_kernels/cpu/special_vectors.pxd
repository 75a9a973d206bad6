# Special functions and gradients of whole lines in vectors of AVX-512, as those of vectors.pxd and double_vectors.pxd: each returns how
# many of the n elements it has done: all or, in other builds, none. Within 3 units in the last place, erfc within 5. Polynomials are
# near-minimax fits, whose tables have a row for each coefficient and a column for each part of the line.
from volta._kernels.cpu cimport bessel, double_vectors, gamma_vectors, special, vectors

cdef extern from * nogil:
    """
    #ifndef VOLTA_SPECIAL_VECTORS
    #define VOLTA_SPECIAL_VECTORS
    #if defined(VOLTA_IN_VECTORS)
      VOLTA_INLINE volta_w d_table(const double *table, int degree, __m512i at, volta_w r) {
          volta_w p = W_OF_16(at, table);
          int i;
          VOLTA_UNROLL_WHOLE
          for (i = 1; i <= degree; i++) p = W_FMA(p, r, W_OF_16(at, table + 16 * i));
          return p;
      }
      /* The middle of the numbers with the same highest bits, `low` of which are left out. */
      VOLTA_INLINE volta_w d_center(__m512i bits, int low) {
          return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(bits, _mm512_set1_epi64((int64_t)((uint64_t)-1 << low)),
                                                               _mm512_set1_epi64((int64_t)1 << (low - 1)), 0xea));
      }

      /* exp(-x**2) t P(t) with t = 15 / (1 + |x|), about the whole numbers, less what the square has lost; beyond 26 the C library's. */
      static const double volta_erfcx_near[160] = {
          0, 7.523305884956341e-12, 2.2073229246948763e-11, 3.5161148373784663e-12, -6.964807848984135e-12,
          -5.2739850802187405e-12, -1.7186534282806521e-12, 1.1359966037373154e-13, 5.876390454021655e-13, 5.16302798932918e-13,
          3.3216895711932986e-13, 1.8064021385004206e-13, 8.482818439630186e-14, 3.218776445658976e-14, 6.3574469790739946e-15,
          -2.8796532252947255e-15, 0, -1.794258238282358e-10, -1.425831752444236e-11, 1.0779553023297428e-10,
          7.966299438548086e-11, 2.0055432088104347e-11, -1.0553037359651841e-11, -1.64395102429596e-11, -1.2623574282395564e-11,
          -7.465253389762122e-12, -3.643169140502726e-12, -1.3767640409236973e-12, -2.203525759287135e-13, 2.8076807682013483e-13,
          4.395665962543392e-13, 4.418763487926819e-13, 0, -4.777608243161491e-10, -1.3528287235997408e-09,
          -8.526956400481542e-10, -3.498495943665635e-11, 3.517835979992294e-10, 3.664155985564654e-10, 2.466035241733754e-10,
          1.2735007119725448e-10, 4.749652753309685e-11, 4.2714182669483465e-12, -1.482204059232342e-11, -2.0589159275699944e-11,
          -2.000690782153899e-11, -1.6958780146431947e-11, -1.3370456357888899e-11, 0, 1.1045357793664217e-08,
          3.822004125819579e-09, -4.475950013440788e-09, -7.434544586154187e-09, -6.04155904465966e-09, -3.386196247894565e-09,
          -1.2149487083374421e-09, 7.520071975569824e-11, 6.628386470199736e-10, 8.261854971104248e-10, 7.787370780890162e-10,
          6.494523553166992e-10, 5.050615410472806e-10, 3.74960128376551e-10, 2.6881469888396877e-10, 0, 5.38216395034509e-08,
          1.015557218138554e-07, 9.775690546775481e-08, 5.9118887652367665e-08, 1.734559123414188e-08, -1.0973311447403688e-08,
          -2.4349647472999453e-08, -2.7349579727658256e-08, -2.4856329660884712e-08, -2.0238773172886268e-08,
          -1.5357828941623978e-08, -1.1053484116650132e-08, -7.592203649997215e-09, -4.9629162403187585e-09,
          -3.044193934657337e-09, 0, -8.292112685583594e-07, -4.222918220428045e-07, 9.702557418776821e-08, 4.965341372563566e-07,
          6.840696529731983e-07, 6.932913441447985e-07, 5.995433267512856e-07, 4.6707939459960244e-07, 3.3510773599412713e-07,
          2.2197053285388162e-07, 1.3310289872127306e-07, 6.740049100339523e-08, 2.1148394511557788e-08, -9.913794608338607e-09,
          -2.9666213170920933e-08, 0, -9.199966919465107e-06, -1.1783583438931432e-05, -1.2427160242554682e-05,
          -1.1174669287573205e-05, -8.743392461538095e-06, -5.941462534446696e-06, -3.33364270744435e-06, -1.195537402812094e-06,
          4.045884479125015e-07, 1.5109990059176752e-06, 2.2129889910119404e-06, 2.606815325236908e-06, 2.7781450792551884e-06,
          2.796235740564614e-06, 2.713882061239796e-06, 0, 6.132667100257734e-05, 2.9440694668328844e-05, -7.398970397941821e-06,
          -4.3202680335295686e-05, -7.326657102968985e-05, -9.530172736931494e-05, -0.00010911954802952464,
          -0.00011578021190995171, -0.000116834373354589, -0.00011384777584615426, -0.00010817295144054467,
          -0.00010087760796141548, -9.275398778079733e-05, -8.436141951456516e-05, -7.60765434640074e-05, 0,
          0.0026542446907172807, 0.0027463119710565064, 0.0027686747611162096, 0.002717440285831999, 0.002599748369998522,
          0.0024297743854745186, 0.002224046991284343, 0.0019980776987134283, 0.0017646634793488105, 0.0015334289016095417,
          0.0013110579959576371, 0.0011018112417119515, 0.0009080945578601309, 0.0007309705429330235, 0.0005705740759800559, 0,
          0.040197228650218464, 0.0429028350524473, 0.04566648587502046, 0.04841552406976717, 0.05107913526210115,
          0.053597569409052914, 0.055926779890734114, 0.05803894790033363, 0.05992048977006669, 0.06156903441929259,
          0.0629903291029588, 0.06419554564424973, 0.06519914306905669, 0.066017275825772, 0.06666666666666667};
      VOLTA_INLINE volta_w d_erfc(volta_w x) {
          volta_w a = W_MIN(W_SET(26), W_ABS(x)), t = W_DIV(W_SET(15), W_ADD(a, W_SET(1))), k, r, p, q, d, power;
          const __mmask8 far = _mm512_cmp_pd_mask(x, W_SET(26), _CMP_GT_OQ);
          k = W_ADD(t, W_SET(VOLTA_ROUNDER64));
          q = W_MUL(t, d_table(volta_erfcx_near, 9, _mm512_castpd_si512(k), W_SUB(t, W_SUB(k, W_SET(VOLTA_ROUNDER64)))));
          d = W_MUL(a, a);
          r = W_SUB(d_exp_rest(W_SUB(W_SET(0), d), &k), _mm512_fmsub_pd(a, a, d));
          p = d_exp_less(r);
          power = W_MUL(q, VOLTA_SIXTEENTHS(_mm512_castpd_si512(k), _mm512_castpd_si512(k)));
          p = W_FMA(power, p, power);
          p = W_PICK(_mm512_movepi64_mask(_mm512_castpd_si512(x)), W_SUB(W_SET(2), p), p);
          return __builtin_expect(far != 0, 0) ? d_again(p, x, far, erfc) : p;
      }

      /* x P(1 - x**2) in halves of octaves; below 1 / 256 as erfinv_f64. */
      static const double volta_erfinv_near[240] = {
          2.0113106076639386e+26, 1.729699390329519e+24, 1.2796050701122676e+22, 1.1020652104637035e+20, 8.165414003538584e+17,
          7043449623399772.0, 52268253952656.52, 451550157202.1834, 3355657603.8224096, 29025269.874375474, 215892.9375655818,
          1868.1387549863223, 13.890724447508752, 0.12003690619362008, 3.170187503278745e+30, 2.7226459378634006e+28,
          -2.121953396310423e+24, -2.556870050195815e+22, -2.7008602655862948e+20, -3.259275055080233e+18, -3.448122642512499e+16,
          -416754135457415.4, -4415905212496.166, -53452856853.536674, -567169235.5782812, -6873342.839193514, -72988.84746112146,
          -884.7510614198195, -9.390186181300809, -0.1136418405677987, -1.6718006706419584e+28, -2.0117069592771127e+26,
          1.9647989487545113e+22, 3.55594287513722e+20, 5.003910952293646e+18, 9.069373113249845e+16, 1278281833335382.5,
          23203368149880.637, 327563956432.27234, 5954436675.084612, 84174958.32561602, 1531707.769124745, 21667.72378952155,
          394.29760034152315, 5.573027018140743, 0.1012191793956007, 7.736746574066615e+25, 1.398343715973928e+24,
          -2.104927902406292e+20, -5.333633461739841e+18, -1.0725806732143326e+17, -2721773015420901.5, -54822207391731.66,
          -1393266794985.607, -28107890152.775925, -715338932.7119213, -14450265.896624692, -368100.56855307, -7439.763609078901,
          -189.48659996862867, -3.8253448602026325, -0.09720581179139288, -4.1427647938254203e+23, -1.04830612926079e+22,
          2.2917386472419156e+18, 8.08595095098461e+16, 2336539749378277.5, 82562677388519.44, 2389582941858.163,
          84564866944.82555, 2451344101.326603, 86868595.16587527, 2521212.0310641485, 89418.2775129037, 2596.0873784566515,
          92.0360876277018, 2.6680851645710013, 0.09433030139024887, 2.254329040378324e+21, 7.942994488621821e+19,
          -2.503555302478949e+16, -1236961970605228.2, -51075023115634.6, -2527301003356.5986, -104521683640.57327,
          -5179730713.145891, -214544938.63528392, -10645937.22687801, -441450.07666657807, -21919.939313904015,
          -909.0363681736438, -45.105268004170135, -1.8669392386538919, -0.09233479408655441, -1.2307838509306548e+19,
          -6.072584757555882e+17, 277127812236408.06, 19177537644834.46, 1131368240713.8567, 78409662054.64624,
          4633154459.8753195, 321577565.4765099, 19029769.84564429, 1322425.8129118527, 78332.98504495392, 5446.128007917333,
          322.53329820942764, 22.399487796180146, 1.3232883303452858, 0.09154560585295744, 6.808453404774557e+16,
          4704843048986802.0, -3120751460724.9287, -302436493085.3942, -25497187032.37039, -2474697820.289898,
          -208963802.61105862, -20310893.457073364, -1717459.0481215648, -167117.5160069064, -14142.317247845898,
          -1376.4017382427555, -116.40867658818047, -11.311358629058374, -0.9536618864852909, -0.09223855634225478,
          -383119714207622.2, -37075257561789.234, 35935501981.7281, 4877352366.002639, 587643825.0769293, 79878131.00862594,
          9639096.760001691, 1312053.9577168748, 158532.54232364104, 21599.0899841228, 2611.0952778594756, 355.68619926183254,
          42.94999753605427, 5.837513404742117, 0.7020874619211005, 0.09489256612424284, 2204226875938.488, 298732239767.91266,
          -426643847.79214567, -81104485.8627046, -13966179.877284916, -2658893.536399474, -458548.9199033887, -87410.48958602137,
          -15091.211297752901, -2878.6241850668766, -497.0322301064307, -94.7408883380156, -16.327454148020248,
          -3.102449283715999, -0.531940621626077, -0.10039275110531075, -13073311465.496235, -2481546160.061123, 5295932.90663663,
          1410218.2806404221, 347106.43213475886, 92559.87037154434, 22813.60952011433, 6090.022574823804, 1502.172663403262,
          401.07750404262265, 98.87280030019802, 26.358171113519298, 6.478317770270228, 1.7194402502482853, 0.41980739325717864,
          0.11049779613781016, 81048929.01616973, 21549920.81423577, -70567.9956956756, -26325.511648151343, -9262.737607749883,
          -3459.7593821641003, -1218.6187277924741, -455.4566283626918, -160.43859372764368, -59.923997345454026,
          -21.0717168328798, -7.847367380305821, -2.746437122664769, -1.0164317321162613, -0.3526372594095924,
          -0.12916467464933576, -539186.3866507388, -200853.54627817185, 1071.7225419419367, 560.145450419757, 281.7033316648801,
          147.32818898560987, 74.10490038683767, 38.73655835164668, 19.45585340572434, 10.145040742200544, 5.074985916673477,
          2.6321642771724014, 1.3068409590315557, 0.6717335471209129, 0.3296691376576012, 0.16729775009667672, 4086.3558758705294,
          2133.2291426751567, -22.43959876682206, -16.390627247433176, -11.739140524216696, -8.558124769452538,
          -6.110966508371301, -4.437669225745155, -3.151591651699814, -2.2739008064183284, -1.6014486149949045,
          -1.1446622521649648, -0.7969023716635362, -0.562613308951669, -0.38604965262212326, -0.2685394423763958,
          -42.81767524077631, -31.292322037747784, 1.9994987934896558, 1.9249316188483867, 1.8440751709563732, 1.7661266693188247,
          1.6818107256784443, 1.6008079063104663, 1.513594158810698, 1.4303038811399418, 1.341287508384868, 1.2570277942950112,
          1.1679114285692398, 1.0845597967968248, 0.9975778742774563, 0.9174083670522701, 2.1478837105026356, 2.076725735998985};
      static __attribute__((noinline)) volta_w d_erfinv_far(volta_w x, volta_w u, volta_w near) {
          const __mmask8 one = _mm512_cmp_pd_mask(W_ABS(x), W_SET(1), _CMP_EQ_OQ);
          volta_w w = W_SUB(W_SET(0), d_log(u)), root = _mm512_sqrt_pd(w), p, q, r;
          p = w_poly(volta_erfinv_first, 25, W_SUB(w, W_SET(3.125)));
          q = w_poly(volta_erfinv_middle, 19, W_SUB(root, W_SET(3.27)));
          r = w_poly(volta_erfinv_last, 19, W_SUB(root, W_SET(5.1)));
          p = W_MUL(x, W_PICK(W_BELOW(w, W_SET(6.25)), p, W_PICK(W_BELOW(w, W_SET(16)), q, r)));
          p = W_PICK(W_BELOW(W_ABS(x), W_SET(1)), p, W_PICK(one, W_MUL(x, W_SET(INFINITY)), W_SET(NAN)));
          return W_PICK(_mm512_cmp_pd_mask(u, W_SET(0.00390625), _CMP_GT_OQ), near, p);
      }
      VOLTA_INLINE volta_w d_erfinv(volta_w x) {
          volta_w u = W_MUL(W_SUB(W_SET(1), x), W_ADD(W_SET(1), x)), y;
          const __m512i bits = _mm512_sub_epi64(_mm512_castpd_si512(u), _mm512_set1_epi64(1));
          y = W_MUL(x, d_table(volta_erfinv_near, 14, _mm512_srli_epi64(bits, 51), W_SUB(u, d_center(bits, 51))));
          return __builtin_expect(_mm512_cmp_pd_mask(u, W_SET(0.00390625), _CMP_NGT_UQ) != 0, 0) ? d_erfinv_far(x, u, y) : y;
      }

      /* log(Gamma(x)): (x - 1) (x - 2) P(x) in quarters of octaves from 1/2 to 8; below by the recurrence, from there on by Stirling's
         series, b (log(x) - 1) + c + S(1 / x**2) / x with b = x - 1/2. What is not positive and finite is left to the C library. */
      static const double volta_lgamma_near[208] = {
          2.0316270951167083e-06, 1.741944195158755e-07, 2.2563784540510693e-08, 3.91987473946821e-09, 4.331558133617611e-10,
          3.692044734605585e-11, 4.765719959504933e-12, 8.260237640740641e-13, 40.06654918476839, 3.513568009721898,
          0.4636814560769098, 0.08180270943573974, 0.00920222648002204, 0.0007984965105456597, 0.0001043754953345027,
          1.8256915408247806e-05, -4.904052844196203e-06, -5.134015451556513e-07, -7.854341193205564e-08, -1.5737827457143804e-08,
          -2.085599097398163e-09, -2.172275715046857e-10, -3.3131438386387156e-11, -6.62438408814606e-12, -24.419323463794033,
          -2.6145691972813494, -0.40736139527490345, -0.08284248438807909, -0.011164994302930963, -0.0011823467399620239,
          -0.00018241941402939794, -3.677835908082623e-05, 1.149642998124051e-05, 1.4869972256106404e-06, 2.705096913168113e-07,
          6.278213426296438e-08, 9.752258724504349e-09, 1.256003016899162e-09, 2.2786815635302e-10, 5.2773883887478307e-11,
          14.478167025740703, 1.9142332973264296, 0.3543741734630303, 0.08340280701639183, 0.013164427584110617,
          0.001720961739310633, 0.0003154601419150187, 7.36118249415437e-05, -2.813595099440223e-05, -4.443490666368522e-06,
          -9.547563923037487e-07, -2.555830523842142e-07, -4.762334996543577e-08, -7.493130577537315e-09, -1.605834153857023e-09,
          -4.288950498648235e-10, -8.964359112972124, -1.4462570341662249, -0.315952956184969, -0.0856858775209866,
          -0.016201532928678576, -0.0025837232846627214, -0.0005588902551839677, -0.0001503090614536026, 6.95229985273081e-05,
          1.3403863439421214e-05, 3.4014860704563018e-06, 1.0502056406099982e-06, 2.3481813190693298e-07, 4.5118021292648696e-08,
          1.1418298950590167e-08, 3.5160540711889243e-09, 5.609393727620774, 1.103691532245573, 0.2844377945355719,
          0.08886744939043355, 0.020132898935918356, 0.003915194032269773, 0.0009992730733731062, 0.00030973238506191097,
          -0.00017370981964198135, -4.0898728467011255e-05, -1.2259280949487635e-05, -4.365496792672107e-06,
          -1.1706058951834796e-06, -2.746638795896924e-07, -8.206954254717479e-08, -2.912938884732747e-08, -3.5527028981636115,
          -0.8524056499457596, -0.25910351482248767, -0.09324672462110285, -0.025296617973335114, -0.005999893841503446,
          -0.0018070645825291297, -0.0006455971396959693, 0.0004406567286554176, 0.0001266990591686493, 4.4854565471140284e-05,
          1.841921573065893e-05, 5.921554195027923e-06, 1.6959144185515922e-06, 5.98023486697089e-07, 2.4455620025230035e-07,
          2.2863375537755335, 0.6686499570931239, 0.23965668080865418, 0.09932941577862746, 0.03226388690043447,
          0.00933310609018753, 0.0033172708582194063, 0.0013661088720631463, -0.0011409865808348538, -0.0004005636048696561,
          -0.00016744207392412218, -7.926468914908615e-05, -3.053484388642323e-05, -1.0666564616209016e-05, -4.43586965413989e-06,
          -2.088741516046067e-06, -1.5029081641977706, -0.5355058931564087, -0.22625907323935213, -0.10798579805385809,
          -0.041994855689663706, -0.014816926979204038, -0.00621545041098882, -0.0029506372006568244, 0.003041118657920341,
          0.001302906333823672, 0.0006426800237879615, 0.0003504909247385704, 0.0001616319313657808, 6.878711595743909e-05,
          3.3701811031151114e-05, 1.825633022458419e-05, 1.017855294108336, 0.441685787431703, 0.21995226230968598,
          0.12087569751363765, 0.05628216876935787, 0.024222189281306157, 0.011991915956997145, 0.006561971241562896,
          -0.008464024993647044, -0.004419488380419885, -0.0025690485830955276, -0.0016120632532136603, -0.0008884513143111378,
          -0.00045975358502350477, -0.00026494642199354125, -0.00016488247839749, -0.7216867370607926, -0.38127657718307756,
          -0.22375936821977901, -0.14158683088020385, -0.07892681966523822, -0.04142369437392771, -0.02419443643070551,
          -0.015252472846050963, 0.025268354959288763, 0.016030995033290377, 0.010952188945789879, 0.007888599595214933,
          0.005179866342315496, 0.0032484062986839236, 0.0021959137095964617, 0.00156644412926504, 0.5543824376904409,
          0.3563924654729358, 0.24636240090481337, 0.17939140482925073, 0.11960320844256102, 0.0764331376004486,
          0.05257942622043391, 0.038122502984276094, -0.08588084755126084, -0.06572934792248165, -0.05246670336016247,
          -0.04316503352502673, -0.033564719273910464, -0.02534762267891015, -0.01999969826943875, -0.016286989704577978,
          -0.5040595289745979, -0.3928343530578919, -0.318708373166188, -0.26612640940481946, -0.21115323425817553,
          -0.1632991558201363, -0.13157899128683392, -0.10918086531277577, 0.3995894876556691, 0.3620683176494759,
          0.33272957550532456, 0.308948691655775, 0.2804270366677077, 0.25128977572182326, 0.22879038625685422,
          0.21075144718206246, 0.7292906717372345, 0.6737458528710984, 0.6295592020730181, 0.5931806378854746, 0.5487833977237905,
          0.5024224884952695, 0.46580963736232694, 0.43586455222115017};
      static const double volta_lgamma_low[16] = {                        /* what is rounded off the last coefficient */
          6.211790745202619e-18, 1.8447018339597407e-17, 1.221078223197877e-17, -1.4794766318034487e-17, -2.9923403589051125e-18,
          -4.0803769704850696e-18, -1.364504714489895e-17, 3.419834707386659e-18, 4.227337553887452e-17, 6.363642044773323e-18,
          -5.080079028725905e-17, 5.206565004597061e-17, -5.601967482407018e-18, -5.484418096129958e-17, -2.231012453713763e-17,
          -1.7681523258146515e-18};
      static __attribute__((noinline)) volta_w d_lgamma_apart(volta_w x, volta_w near) {
          static const double c[6] = {0.0833333333333333, -0.002777777777606244, 0.0007936506649488252, -0.0005952025951802712,
                                      0.0008372834512071336, -0.0016526004455595122};
          const __mmask8 none = _mm512_fpclass_pd_mask(x, 0x9f);           /* zeros, infinities, NaN */
          volta_w rest, high = d_log_pair(W_ABS(x), &rest), y, s, l, less, b;
          near = _mm512_mask_sub_pd(near, W_BELOW(x, W_SET(0.5)), near, W_ADD(high, rest));
          y = _mm512_rcp14_pd(x);
          y = W_FMA(y, W_NEG_FMA(x, y, W_SET(1)), y);
          y = W_FMA(y, W_NEG_FMA(x, y, W_SET(1)), y);
          s = W_FMA(w_poly(c, 6, W_MUL(y, y)), y, W_SET(0.41893853320467274));
          high = W_SUB(high, W_SET(1)), l = W_ADD(high, rest), less = W_ADD(W_SUB(high, l), rest), b = W_SUB(x, W_SET(0.5));
          y = W_PICK(W_BELOW(x, W_SET(8)), near, W_FMA(b, l, W_FMA(b, less, s)));
          return none ? d_again(y, x, none, lgamma) : y;
      }
      /* Of x below -1/2, of which y is lgamma(a) for a = |x|: with r = a less the nearest integer, lgamma(x) is -y - log(a |r| q), q =
         sin(pi r) / (pi r). What is rounded off of the product is added; what is small beside y, next to a root, is the C library's. */
      static __attribute__((noinline)) volta_w d_lgamma_mirrored(volta_w x, __mmask8 far, volta_w y) {
          static const double c[9] = {-1.6449340668482264, 0.8117424252833536, -0.19075182412208275, 0.02614784781761525,
              -0.002346081034849444, 0.00014842878741490033, -6.975841607291517e-06, 2.5301141883243277e-07, -7.094447281049012e-09};
          volta_w a = W_ABS(x), r = W_ABS(W_SUB(a, _mm512_roundscale_pd(a, 0))), z = W_MUL(r, r), s = w_poly(c, 9, z);
          volta_w q, q_low, m, w, low, high, rest, sum;
          __mmask8 again;
          q = W_FMA(z, s, W_SET(1));
          q_low = W_FMA(z, s, W_SUB(W_SET(1), q));
          q_low = W_FMA(z, W_SET(-3.024231164102779e-17), W_FMA(_mm512_fmsub_pd(r, r, z), W_SET(-1.6449340668482264), q_low));
          m = W_MUL(a, r);
          w = W_MUL(m, q);
          low = W_ADD(_mm512_fmsub_pd(m, q, w), W_FMA(m, q_low, W_MUL(_mm512_fmsub_pd(a, r, m), q)));
          high = d_log_pair(w, &rest);
          rest = W_FMA(low, _mm512_rcp14_pd(w), rest);
          sum = W_ADD(high, y);
          low = W_SUB(sum, y);
          low = W_ADD(W_SUB(high, low), W_SUB(y, W_SUB(sum, low)));
          q = W_SUB(W_SET(0), W_ADD(sum, W_ADD(low, rest)));
          again = far & (W_BELOW(W_ABS(q), W_MUL(W_SET(0.5), W_ABS(y))) | W_BELOW(W_ABS(q), W_SET(0.0625)));
          q = W_PICK(_mm512_cmp_pd_mask(r, W_SET(0), _CMP_GT_OQ), q, W_SET(INFINITY));           /* not at poles */
          y = W_PICK(far, q, y);
          return again ? d_again(y, x, again, lgamma) : y;
      }
      VOLTA_INLINE volta_w d_lgamma(volta_w number) {
          const __mmask8 far = W_BELOW(number, W_SET(-0.5));
          const volta_w x = _mm512_mask_sub_pd(number, far, W_SET(0), number);
          const __mmask8 below = W_BELOW(x, W_SET(0.5)), near = W_BELOW(x, W_SET(8));
          volta_w u = _mm512_mask_sub_pd(x, (__mmask8)~below, x, W_SET(1)), y = W_ADD(u, W_SET(1));
          const __m512i bits = _mm512_castpd_si512(y), at = _mm512_srli_epi64(bits, 50);
          volta_w r = W_SUB(y, d_center(bits, 50)), first = W_OF_16(at, volta_lgamma_near + 192), p, low, v = W_SUB(u, W_SET(1));
          low = W_FMA(d_table(volta_lgamma_near, 11, at, r), r, W_OF_16(at, volta_lgamma_low));
          p = W_ADD(first, low), low = W_SUB(low, W_SUB(p, first)), y = W_MUL(u, v);
          y = W_FMA(y, p, W_FMA(y, low, W_MUL(_mm512_fmsub_pd(u, v, y), p)));          /* 0 at the roots, without a sign */
          if (below | (__mmask8)~near) y = d_lgamma_apart(x, y);
          return __builtin_expect(far, 0) ? d_lgamma_mirrored(number, far, y) : y;
      }

      /* As volta_bessel_i. */
      static __attribute__((noinline)) volta_w d_bessel_far(volta_w x, volta_w near, int order, int scaled) {
          volta_w a = W_ABS(x), t = W_DIV(W_SET(1), a), e = d_exp(scaled ? W_SUB(W_SET(0), a) : W_MUL(W_SET(0.5), a));
          volta_w q = W_MUL(W_MUL(w_poly(volta_bessel_far[order], 12, t), _mm512_sqrt_pd(t)), scaled ? W_SET(1) : e);
          return W_PICK(W_BELOW(a, W_SET(16)), near, W_MUL(q, scaled ? W_SET(1) : e));
      }
      VOLTA_INLINE volta_w d_bessel_i(volta_w x, int order, int scaled) {
          volta_w a = W_ABS(x), p = w_poly(volta_bessel_near[order], 21, W_MUL(W_MUL(W_SET(0.25), a), a));
          if (order) p = W_MUL(p, W_MUL(W_SET(0.5), a));
          if (scaled) p = W_MUL(p, d_exp(W_SUB(W_SET(0), a)));
          if (__builtin_expect(_mm512_cmp_pd_mask(a, W_SET(16), _CMP_NLT_UQ) != 0, 0)) p = d_bessel_far(x, p, order, scaled);
          return order ? W_WITH_SIGN(p, x) : p;
      }

      VOLTA_INLINE volta_w d_elu_grad(volta_w g, volta_w x, double alpha, double inner) {
          volta_w y = W_MUL(g, W_MUL(W_SET(alpha * inner), d_exp(W_MUL(x, W_SET(inner)))));
          return W_PICK(_mm512_cmp_pd_mask(x, W_SET(0), _CMP_LE_OQ), y, g);
      }

      /* As erfinv_f32. */
      static __attribute__((noinline)) volta_v v_erfinv_far(volta_v x, volta_v l, volta_v near) {
          volta_v s = V_SUB(_mm512_sqrt_ps(V_SUB(V_SET(0), l)), V_SET(3)), q = V_SET(1.02817765e-4f);
          q = V_FMA(q, s, V_SET(-2.95500970e-4f));
          q = V_FMA(q, s, V_SET(-3.90836649e-5f));
          q = V_FMA(q, s, V_SET(1.46697636e-3f));
          q = V_FMA(q, s, V_SET(-3.60624189e-3f));
          q = V_FMA(q, s, V_SET(5.69426967e-3f));
          q = V_FMA(q, s, V_SET(-7.63542810e-3f));
          q = V_FMA(q, s, V_SET(9.44435969e-3f));
          q = V_FMA(q, s, V_SET(1.00167489f));
          q = V_FMA(q, s, V_SET(2.83297682f));
          return V_PICK(_mm512_cmp_ps_mask(l, V_SET(-5), _CMP_GT_OQ), near, V_MUL(x, q));
      }
      VOLTA_INLINE volta_v v_erfinv(volta_v x) {
          volta_v l = v_log(V_MUL(V_SUB(V_SET(1), x), V_ADD(V_SET(1), x))), v = V_SUB(V_SET(-2.5f), l), p = V_SET(-8.93192631e-9f);
          p = V_FMA(p, v, V_SET(2.33359678e-8f));
          p = V_FMA(p, v, V_SET(4.68131361e-7f));
          p = V_FMA(p, v, V_SET(-3.46398519e-6f));
          p = V_FMA(p, v, V_SET(-4.97241990e-6f));
          p = V_FMA(p, v, V_SET(2.18349393e-4f));
          p = V_FMA(p, v, V_SET(-1.25272642e-3f));
          p = V_FMA(p, v, V_SET(-4.17739293e-3f));
          p = V_FMA(p, v, V_SET(0.246640280f));
          p = V_MUL(x, V_FMA(p, v, V_SET(1.50140941f)));
          return __builtin_expect(_mm512_cmp_ps_mask(l, V_SET(-5), _CMP_NGT_UQ) != 0, 0) ? v_erfinv_far(x, l, p) : p;
      }
      VOLTA_INLINE volta_v v_softplus_grad(volta_v g, volta_v x, float beta, float threshold) {
          volta_v z = V_MUL(x, V_SET(beta)), e = v_exp_below(V_WITH_SIGN(z, V_SET(-1)));
          e = _mm512_div_ps(_mm512_mask_mul_ps(g, V_NEGATIVE(z), g, e), V_ADD(V_SET(1), e));
          return V_PICK(_mm512_cmp_ps_mask(z, V_SET(threshold), _CMP_GT_OQ), g, e);
      }
      VOLTA_INLINE volta_w d_softplus_grad(volta_w g, volta_w x, double beta, double threshold) {
          const volta_w z = W_MUL(x, W_SET(beta)), e = d_exp(W_SUB(W_SET(0), W_ABS(z)));
          const __mmask8 negative = _mm512_movepi64_mask(_mm512_castpd_si512(z));
          const volta_w slope = _mm512_div_pd(_mm512_mask_mul_pd(g, negative, g, e), W_ADD(W_SET(1), e));
          return W_PICK(_mm512_cmp_pd_mask(z, W_SET(threshold), _CMP_GT_OQ), g, slope);
      }
      VOLTA_INLINE volta_v v_logit_grad(volta_v g, volta_v x) {
          const __mmask16 inside = _mm512_cmp_ps_mask(x, V_SET(0), _CMP_GE_OQ) & _mm512_cmp_ps_mask(x, V_SET(1), _CMP_LE_OQ);
          return V_PICK(inside, _mm512_div_ps(g, V_MUL(x, V_SUB(V_SET(1), x))), V_SET(NAN));
      }
      #define VOLTA_BESIDE(x) _mm512_maskz_loadu_ps((__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffff), x + i)
      #define VOLTA_BESIDE64(x) _mm512_maskz_loadu_pd((__mmask8)(n - i < 8 ? (1u << (n - i)) - 1 : 0xff), x + i)
    #endif
    VOLTA_LINE64(volta_erfc_line64, , d_erfc(v))
    VOLTA_LINE64(volta_erfinv_line64, , d_erfinv(v))
    VOLTA_LINE64(volta_lgamma_line64, , d_lgamma(v))
    VOLTA_LINE64(volta_i0_line64, , d_bessel_i(v, 0, 0))
    VOLTA_LINE64(volta_i1_line64, , d_bessel_i(v, 1, 0))
    VOLTA_LINE64(volta_i0e_line64, , d_bessel_i(v, 0, 1))
    VOLTA_LINE64(volta_i1e_line64, , d_bessel_i(v, 1, 1))
    #define VOLTA_SLOPE64 const double *b, double alpha, double inner,
    VOLTA_LINE64(volta_elu_grad_line64, VOLTA_SLOPE64, d_elu_grad(v, VOLTA_BESIDE64(b), alpha, inner))
    VOLTA_LINE(volta_erfinv_line, , v_erfinv(v))
    #define VOLTA_KEPT const float *b,
    VOLTA_LINE(volta_logit_grad_line, VOLTA_KEPT, v_logit_grad(v, VOLTA_BESIDE(b)))
    #define VOLTA_SLOPE const float *b, float beta, float threshold,
    VOLTA_LINE(volta_softplus_grad_line, VOLTA_SLOPE, v_softplus_grad(v, VOLTA_BESIDE(b), beta, threshold))
    #define VOLTA_STEEP64 const double *b, double beta, double threshold,
    VOLTA_LINE64(volta_softplus_grad_line64, VOLTA_STEEP64, d_softplus_grad(v, VOLTA_BESIDE64(b), beta, threshold))
    #endif
    """
    Py_ssize_t erfc_line64 "volta_erfc_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t erfinv_line64 "volta_erfinv_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t lgamma_line64 "volta_lgamma_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t i0_line64 "volta_i0_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t i1_line64 "volta_i1_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t i0e_line64 "volta_i0e_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t i1e_line64 "volta_i1e_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t elu_grad_line64 "volta_elu_grad_line64"(double* out, const double* g, const double* x, double alpha, double inner,
                                                         Py_ssize_t n)
    Py_ssize_t erfinv_line "volta_erfinv_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t logit_grad_line "volta_logit_grad_line"(float* out, const float* g, const float* x, Py_ssize_t n)
    Py_ssize_t softplus_grad_line "volta_softplus_grad_line"(float* out, const float* g, const float* x, float beta, float threshold,
                                                             Py_ssize_t n)
    Py_ssize_t softplus_grad_line64 "volta_softplus_grad_line64"(double* out, const double* g, const double* x, double beta,
                                                                 double threshold, Py_ssize_t n)
